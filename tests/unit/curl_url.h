/* curl_url.h: curl's URL parser, where its library is there: what a program inside may take a host and
 * port for. By dlopen, with the stable numbers of its interface, so that no headers are needed. */
#ifndef MCG_TEST_CURL_URL_H
#define MCG_TEST_CURL_URL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURL_PART_URL 0
#define CURL_PART_HOST 5
#define CURL_PART_PORT 6
#define CURL_DEFAULT_PORT 1u

typedef struct curl_parser {
  void *library;
  void *(*url)(void);
  void (*cleanup)(void *url);
  int (*set)(void *url, int part, const char *text, unsigned flags);
  int (*get)(const void *url, int part, char **out, unsigned flags);
  void (*free)(void *text);
} curl_parser;

static inline bool curl_open(curl_parser *curl)
{
  static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
  memset(curl, 0, sizeof *curl);
  for (int i = 0; names[i] && !curl->library; i++)
    curl->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!curl->library) return false;
  *(void **)&curl->url = dlsym(curl->library, "curl_url");
  *(void **)&curl->cleanup = dlsym(curl->library, "curl_url_cleanup");
  *(void **)&curl->set = dlsym(curl->library, "curl_url_set");
  *(void **)&curl->get = dlsym(curl->library, "curl_url_get");
  *(void **)&curl->free = dlsym(curl->library, "curl_free");
  return curl->url && curl->cleanup && curl->set && curl->get && curl->free;
}

/* Host and port of http://TEXT/ as curl understands it; false: it does not. */
static inline bool curl_splits(const curl_parser *curl, const char *text, size_t len,
                               char host[1024], unsigned *port)
{
  char url[1024 + 16], *part = NULL;
  bool good = false;
  if (len > 1000 || memchr(text, '\0', len)) return false;
  snprintf(url, sizeof url, "http://%.*s/", (int)len, text);
  void *parsed = curl->url();
  if (parsed && curl->set(parsed, CURL_PART_URL, url, 0) == 0 &&
      curl->get(parsed, CURL_PART_HOST, &part, 0) == 0 && part) {
    snprintf(host, 1024, "%s", part);
    curl->free(part);
    part = NULL;
    good = curl->get(parsed, CURL_PART_PORT, &part, CURL_DEFAULT_PORT) == 0 && part;
    *port = good ? (unsigned)strtoul(part, NULL, 10) : 0;
    if (part) curl->free(part);
  }
  if (parsed) curl->cleanup(parsed);
  return good;
}

#endif
