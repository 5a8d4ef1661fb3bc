/* spawn.c: a specification survives the trip; cut, bent and doubled ones neither crash nor leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "init/spawn.h"

#include <stdlib.h>
#include <string.h>

static mcg_spawn_mount mounts[] = {{"/usr/share", "/data", false}, {"/home/a b", "/w", true}};
static mcg_spawn_user users[] = {{"bob", "/home/bob", 0, 0}, {"eve", "/e", 2000, 50}};
static const mcg_spawn_spec sample = {.kind = MCG_KIND_PLAIN,
                                      .profile = MCG_PROFILE_STRICT,
                                      .network = 1,
                                      .carrier = 1,
                                      .uid = 1234,
                                      .gid = 4321,
                                      .rootfs_rw = 1,
                                      .disk_image = 1,
                                      .cpu_milli = 1500,
                                      .pids = 64,
                                      .nofile = 256,
                                      .memory = 5ULL << 32,
                                      .disk = 1ULL << 33,
                                      .id = "mcg-1",
                                      .rootfs = "/srv/root",
                                      .workdir = "/workspace",
                                      .project = "/home/me/p",
                                      .hostname = "box",
                                      .mounts = mounts,
                                      .mount_count = 2,
                                      .users = users,
                                      .user_count = 2};

static void test_round_trip(void **state)
{
  (void)state;
  mcg_wire wire;
  mcg_spawn_spec back;
  mcg_wire_init(&wire);
  mcg_spawn_spec_encode(&sample, &wire);
  assert_false(wire.failed);
  assert_true(mcg_spawn_spec_decode(wire.data, wire.len, &back));
  assert_int_equal(back.kind, sample.kind);
  assert_int_equal(back.profile, sample.profile);
  assert_int_equal(back.network, 1);
  assert_int_equal(back.carrier, 1);
  assert_int_equal(back.uid, 1234);
  assert_int_equal(back.gid, 4321);
  assert_int_equal(back.rootfs_rw, 1);
  assert_int_equal(back.disk_image, 1);
  assert_int_equal(back.cpu_milli, 1500);
  assert_int_equal(back.pids, 64);
  assert_int_equal(back.nofile, 256);
  assert_true(back.memory == sample.memory && back.disk == sample.disk);
  assert_string_equal(back.id, sample.id);
  assert_string_equal(back.rootfs, sample.rootfs);
  assert_string_equal(back.workdir, sample.workdir);
  assert_string_equal(back.project, sample.project);
  assert_string_equal(back.hostname, sample.hostname);
  assert_int_equal(back.mount_count, 2);
  assert_string_equal(back.mounts[1].source, "/home/a b");
  assert_string_equal(back.mounts[1].target, "/w");
  assert_true(back.mounts[1].writable);
  assert_false(back.mounts[0].writable);
  assert_int_equal(back.user_count, 2);
  assert_string_equal(back.users[0].name, "bob");
  assert_string_equal(back.users[0].home, "/home/bob");
  assert_int_equal(back.users[0].uid, 0);
  assert_int_equal(back.users[1].uid, 2000);
  assert_int_equal(back.users[1].gid, 50);
  mcg_spawn_spec_fini(&back);
  mcg_wire_fini(&wire);
}

static void test_empty(void **state)
{
  (void)state;
  mcg_spawn_spec back;
  assert_true(mcg_spawn_spec_decode(NULL, 0, &back));
  assert_null(back.workdir);
  assert_int_equal(back.mount_count, 0);
  mcg_spawn_spec_fini(&back);
}

static void test_cut_and_bent(void **state)
{
  (void)state;
  mcg_wire wire;
  mcg_spawn_spec back;
  unsigned taken = 0;
  mcg_wire_init(&wire);
  mcg_spawn_spec_encode(&sample, &wire);
  for (size_t len = 0; len < wire.len; len++) {
    uint8_t *copy = malloc(len ? len : 1); /* so that a read past the end is seen */
    memcpy(copy, wire.data, len);
    taken += mcg_spawn_spec_decode(copy, len, &back);
    mcg_spawn_spec_fini(&back);
    free(copy);
  }
  assert_int_equal(taken, 22); /* the cuts between the 22 fields, none inside one */
  for (size_t at = 0; at < wire.len; at++)
    for (int bit = 0; bit < 8; bit++) {
      wire.data[at] ^= (uint8_t)(1 << bit);
      mcg_spawn_spec_decode(wire.data, wire.len, &back);
      mcg_spawn_spec_fini(&back);
      wire.data[at] ^= (uint8_t)(1 << bit);
    }
  mcg_wire_fini(&wire);
}

static void refuse(uint16_t tag, const void *bytes, size_t len)
{
  mcg_wire wire;
  mcg_spawn_spec back;
  mcg_wire_init(&wire);
  mcg_wire_put_str(&wire, MCG_ST_ID, "kept");
  mcg_wire_put(&wire, tag, bytes, len);
  assert_false(mcg_spawn_spec_decode(wire.data, wire.len, &back));
  mcg_spawn_spec_fini(&back);
  mcg_wire_fini(&wire);
}

static void test_refused(void **state)
{
  (void)state;
  refuse(MCG_ST_WORKDIR, "a\0b", 3);
  refuse(MCG_ST_PIDS, "\0\0\0\0\1", 5); /* more than 32 bits */
  refuse(MCG_ST_PIDS, "", 0);
  refuse(MCG_ST_MEMORY, "123456789", 9);
  refuse(MCG_ST_MOUNT, "", 0); /* neither source nor target */
  refuse(MCG_ST_MOUNT, "\1\0\0\0\xff\0\0\0", 8);
  refuse(MCG_ST_USER, "", 0); /* neither name nor home */
}

static void test_doubled_and_unknown(void **state)
{
  (void)state;
  mcg_wire wire;
  mcg_spawn_spec back;
  mcg_wire_init(&wire);
  mcg_wire_put_str(&wire, MCG_ST_ID, "first");
  mcg_wire_put_str(&wire, MCG_ST_ID, "last");
  mcg_wire_put_str(&wire, 60000, "from the future");
  assert_true(mcg_spawn_spec_decode(wire.data, wire.len, &back));
  assert_string_equal(back.id, "last");
  mcg_spawn_spec_fini(&back);
  mcg_wire_fini(&wire);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),          cmocka_unit_test(test_empty),
      cmocka_unit_test(test_cut_and_bent),        cmocka_unit_test(test_refused),
      cmocka_unit_test(test_doubled_and_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
