/* The start of a TLS connection: however it is cut into packets, the answer is the same, and a name is one
 * that normalises to itself. */
#define MCG_SAMPLES_TLS
#include "fuzz.h"
#include "egress/sni.h"
#include "wire_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mcg_sni whole, part;
  char again[MCG_NAME_ROOM];
  mcg_address address;
  const char *why;
  mcg_sni_kind kind = mcg_sni_read(data, size, &whole);
  FUZZ_NEED((kind == MCG_SNI_NAME) == (*whole.name != '\0'));
  FUZZ_NEED((kind == MCG_SNI_BAD) == (whole.why != NULL));
  if (kind == MCG_SNI_NAME)
    FUZZ_NEED(mcg_name_normalise(whole.name, strlen(whole.name), again, &address, &why) ==
                  MCG_NAME_HOST &&
              strcmp(again, whole.name) == 0);
  /* Once it is known, it stays so; before, there is more to come. */
  for (size_t cut = 0; cut <= size; cut += 1 + size / 64) {
    mcg_sni_kind early = mcg_sni_read(data, cut, &part);
    if (early == MCG_SNI_MORE) continue;
    FUZZ_NEED(early == kind && strcmp(part.name, whole.name) == 0 && part.ech == whole.ech);
  }
  return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const char *const all[] = {openssl_13, openssl_12, openssl_no_name, python_idn};
  (void)room;
  return index < sizeof all / sizeof *all ? sample(all[index], out) : 0;
}
