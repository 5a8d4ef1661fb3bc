/* keeper.h: a session served to other engines of the same user, and the other engine's half of it.
 *
 * One SOCK_SEQPACKET connection a client; each packet is one JSON document.
 *   C  {"version":1}
 *   K  {"version":1,"config":{...},"session":{...},"since":[s,ns],"secrets":["base64",...],"parent":...}
 *      + one descriptor: a stream of its own to init. since: on the clock of file systems, before the
 *      sandbox was made
 *   C  {"id":n,"op":"figures"}     K  {"id":n,"figures":{...}}
 *   C  {"op":"used",...}, {"op":"snapshot",...}         what the client has used, saved, restored; no answer
 *   C  {"id":n,"op":"stop"}        K  {"id":n,"stopped":true}     once no process lives
 *   C  {"id":n,"op":"set_network","network":...}        K  {"id":n,"set":true}
 *   C  {"id":n,"op":"network_log","from":n}             K  {"id":n,"events":[...],"total":n}   in pages
 *   K  {"id":n,"error":{"code":...,"message":...,"fix":...}}      instead of any of them
 * Both ends check that the other's uid is their own. Commands travel on the stream, never here; when
 * it ends, init ends the client's commands, the detached ones excepted. */
#ifndef MCG_KEEPER_H
#define MCG_KEEPER_H

#include "session.h"

#define MCG_KEEPER_VERSION 1
#define MCG_KEEPER_PACKET_MAX ((size_t)160 << 10)

/* keeper.c: no new client from now on; and the end of the old ones. */
void mcg_keeper_deaf(mcg_session *session);
void mcg_keeper_end(mcg_session *session);

/* resume.c: what a resumed session asks its keeper; letting go of it. */
int mcg_remote_figures(mcg_session *session, json_t *out, mcg_error **err) MCG_PARKS;
/* Adds what a command has used to the usage of the session, with its keeper. Nobody waits for it. */
void mcg_remote_used(const mcg_session *session, uint64_t commands, uint64_t exec_ns,
                     uint64_t cpu_us, uint64_t maxrss_kb);
/* A snapshot of so many bytes was saved (0: restored); it is what the next one comes from. The same. */
void mcg_remote_snapshot(const mcg_session *session, uint64_t bytes, const char *parent);
int mcg_remote_stop(mcg_session *session, mcg_error **err) MCG_PARKS;
int mcg_remote_set_network(mcg_session *session, const json_t *network, mcg_error **err) MCG_PARKS;
int mcg_remote_network_log(mcg_session *session, json_t *list, mcg_error **err) MCG_PARKS;
void mcg_remote_close(mcg_session *session);
const char *mcg_remote_path(const mcg_session *session);

/* A listening unix socket of `type` in a directory that is this user's alone, made where it is missing. A
 * socket that nobody listens on any more is replaced. */
int mcg_keeper_listen(const char *path, int type, int *out, mcg_error **err);

/* Both: one JSON document out; false when the socket does not take it. Room for the peer's uid check. */
bool mcg_keeper_send(int fd, const json_t *document, int pass_fd);
bool mcg_keeper_peer_ok(int fd);

#endif
