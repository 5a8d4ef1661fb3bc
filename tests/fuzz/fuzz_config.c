/* A configuration, as JSON: the text is judged, or refused with words that say what is wrong, twice in the
 * same way; what is in force with it is JSON again. */
#include "fuzz.h"
#include "host.h"
#include <jansson.h>

#define ENGINE_RUNS 2000 /* an engine remembers the secrets that it was told */

static void renew_engine(void)
{
  static unsigned runs;
  if (engine && ++runs % ENGINE_RUNS) return;
  if (engine) engine_down(NULL);
  engine_up(NULL);
}

static void check_error(const mcg_error *error)
{
  FUZZ_NEED(error && *mcg_code_name(error->code));
  for (const mcg_error *each = error; each; each = each->cause)
    FUZZ_NEED(each->message && *each->message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mcg_error *first = NULL, *second = NULL;
  const char *text = size ? (const char *)data : "";
  renew_engine();
  char *one = mcg_config_resolve(engine, text, size, &first);
  char *two = mcg_config_resolve(engine, text, size, &second);
  FUZZ_NEED(!one == !two && !one == !!first && !two == !!second);
  if (one) {
    json_t *root = json_loads(one, 0, NULL);
    FUZZ_NEED(json_is_object(root) && strcmp(one, two) == 0);
    json_decref(root);
  } else {
    check_error(first);
    check_error(second);
    FUZZ_NEED(first->code == second->code && strcmp(first->message, second->message) == 0);
  }
  mcg_error_free(first);
  mcg_error_free(second);
  free(one);
  free(two);
  return 0;
}
