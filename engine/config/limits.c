/* limits.c: resources of one sandbox: what may be written, what holds where nothing was. */
#include "config.h"

#define MIB ((double)(1 << 20))
#define DEFAULT_MEMORY_MB 1024.0
#define DEFAULT_DISK_MB 1024.0
#define DEFAULT_CPU 1.0
#define DEFAULT_PIDS 256
#define DEFAULT_FILES 1024

/* One row a key: its range in its own unit, and what one of it is in ours. */
typedef struct limit_row {
  const char *name;
  size_t offset; /* in mcg_limits */
  double low, high;
  bool whole;
  double unit;
  bool ours; /* the engine keeps it, whatever the backend */
} limit_row;

static const limit_row rows[] = {
    {"cpu_count", offsetof(mcg_limits, cpu_milli), 0.01, 1024, false, 1000, false},
    {"memory_mb", offsetof(mcg_limits, memory_bytes), 8, 64.0 * 1024 * 1024, false, MIB, false},
    {"pid_limit", offsetof(mcg_limits, pids), 1, 4194304, true, 1, false},
    {"disk_mb", offsetof(mcg_limits, disk_bytes), 1, 64.0 * 1024 * 1024, false, MIB, false},
    {"open_files", offsetof(mcg_limits, open_files), 16, 1048576, true, 1, false},
    {"wall_s", offsetof(mcg_limits, wall_ms), 0.001, 1e9, false, 1000, true},
    {"exec_s", offsetof(mcg_limits, exec_ms), 0.001, 1e9, false, 1000, true},
    {"output_mb", offsetof(mcg_limits, output_bytes), 0.000001, 1e9, false, MIB, true},
};
#define ROWS (sizeof rows / sizeof *rows)

static mcg_limit *limit_of(mcg_limits *limits, const limit_row *row)
{
  return (mcg_limit *)((char *)limits + row->offset);
}

int mcg_limits_read(const json_t *limits, const mcg_where *where, mcg_limits *out, mcg_error **err)
{
  if (!limits) return 0;
  const char *names[ROWS + 1] = {NULL};
  for (size_t i = 0; i < ROWS; i++) names[i] = rows[i].name;
  if (mcg_check_keys(limits, names, where, err) < 0) return -1;
  for (size_t i = 0; i < ROWS; i++) {
    const json_t *value = json_object_get(limits, rows[i].name);
    mcg_where at = {.up = where, .key = rows[i].name};
    double number;
    if (!value) continue;
    if (mcg_check_number(value, &at, rows[i].low, rows[i].high, rows[i].whole, &number, err) < 0)
      return -1;
    uint64_t amount = (uint64_t)(number * rows[i].unit + 0.5);
    *limit_of(out, &rows[i]) = (mcg_limit){.value = amount ? amount : 1, .written = true};
  }
  return 0;
}

static void set_default(mcg_limit *limit, double value)
{
  if (!limit->written && !limit->value) limit->value = (uint64_t)value;
}

/* Disk is a tmpfs: its pages are memory. Half of the memory, so that a full disk is "no space left"
 * and never a kill. */
void mcg_limits_default(mcg_limits *limits)
{
  set_default(&limits->cpu_milli, DEFAULT_CPU * 1000);
  set_default(&limits->memory_bytes, DEFAULT_MEMORY_MB * MIB);
  set_default(&limits->pids, DEFAULT_PIDS);
  set_default(&limits->open_files, DEFAULT_FILES);
  double half = (double)limits->memory_bytes.value / 2;
  if (!limits->disk_bytes.written)
    limits->disk_bytes.value = 0; /* the memory may have been raised */
  set_default(&limits->disk_bytes, half < DEFAULT_DISK_MB * MIB ? half : DEFAULT_DISK_MB * MIB);
}

json_t *mcg_limits_json(const mcg_limits *limits)
{
  json_t *out = json_object();
  for (size_t i = 0; out && i < ROWS; i++) {
    uint64_t value = limit_of((mcg_limits *)limits, &rows[i])->value;
    if (value) json_object_set_new(out, rows[i].name, json_real((double)value / rows[i].unit));
  }
  return out;
}

int mcg_limits_refuse_written(const mcg_limits *limits, const char *backend, mcg_error **err)
{
  for (size_t i = 0; i < ROWS; i++) {
    if (rows[i].ours || !limit_of((mcg_limits *)limits, &rows[i])->written) continue;
    return mcg_fail(
        err, MCG_UNENFORCEABLE,
        "use the jail backend, leave the limit out, or set enforcement = \"best_effort\"",
        "limits.%s: %s cannot enforce it", rows[i].name, backend);
  }
  return 0;
}
