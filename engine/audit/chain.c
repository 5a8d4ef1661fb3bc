/* chain.c: what makes a file of lines a chain: each line's hash covers the one before. */
#include "sink.h"
#include <string.h>

void mcg_chain_init(mcg_chain *chain, const char *key, size_t key_len)
{
  *chain = (mcg_chain){.keyed = key != NULL};
  memset(chain->head, '0', MCG_HASH_LEN);
  if (key) mcg_hmac_key_init(&chain->key, key, key_len);
}

void mcg_chain_hash(const mcg_chain *chain, const char *const *parts, const size_t *lens,
                    size_t count, char out[MCG_HASH_LEN])
{
  mcg_sha256 hash;
  uint8_t digest[32];
  if (chain->keyed)
    mcg_hmac_start(&chain->key, &hash);
  else
    mcg_sha256_init(&hash);
  for (size_t i = 0; i < count; i++) mcg_sha256_update(&hash, parts[i], lens[i]);
  if (chain->keyed)
    mcg_hmac_final(&chain->key, &hash, digest);
  else
    mcg_sha256_final(&hash, digest);
  mcg_hex(digest, sizeof digest, out);
}

bool mcg_chain_append(mcg_chain *chain, mcg_text *out, const mcg_line *line)
{
  size_t start = out->len, hash_at = start + (line->hash_at ? line->hash_at : 1);
  if (!mcg_text_room(out, line->len + 3 * MCG_HASH_LEN)) return false;
  /* First as it is hashed, then the hash is put in its place. */
  if (!line->hash_at) mcg_text_literal(out, "{");
  mcg_text_put(out, line->text + !line->hash_at, line->prev_at - !line->hash_at);
  mcg_text_literal(out, "\"");
  mcg_text_put(out, chain->head, MCG_HASH_LEN);
  mcg_text_literal(out, "\"");
  mcg_text_put(out, line->text + line->prev_at, line->seq_at - line->prev_at);
  mcg_text_whole(out, chain->seq + 1);
  mcg_text_put(out, line->text + line->seq_at, line->len - line->seq_at);
  char field[] = ",\"hash\":\"................................................................\"";
  char *hash = field + sizeof ",\"hash\":\"" - 1, next[MCG_HASH_LEN];
  const char *parts[] = {chain->head, out->data + start};
  const size_t lens[] = {MCG_HASH_LEN, out->len - start};
  mcg_chain_hash(chain, parts, lens, 2, next);
  memcpy(hash, next, MCG_HASH_LEN);
  /* After "{" there is no comma before it, but one behind. */
  const char *put = field;
  size_t len = sizeof field - 1;
  if (!line->hash_at) {
    memmove(field, field + 1, len - 1);
    field[len - 1] = ',';
  }
  if (!mcg_text_room(out, len + 1)) return false;
  memmove(out->data + hash_at + len, out->data + hash_at, out->len - hash_at);
  memcpy(out->data + hash_at, put, len);
  out->len += len;
  mcg_text_literal(out, "\n");
  memcpy(chain->head, next, MCG_HASH_LEN);
  chain->seq++;
  return !out->failed;
}
