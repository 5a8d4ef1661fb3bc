/* connection.h: one client of init, over either carrier: what is sent to it and has not left yet, and
 * what came from it. Nothing here blocks. */
#ifndef MCG_CONNECTION_H
#define MCG_CONNECTION_H

#include "intake.h"
#include "wire.h"

enum { MCG_DIRECT = 0, MCG_FRAMED = 1 };

struct mcg_packet;

typedef struct mcg_conn {
  struct mcg_conn *next;
  struct mcg_server *server;
  int fd, carrier;
  bool first;   /* init lives as long as this one */
  bool greeted; /* HELLO came */
  bool killing; /* it wants no command to live, and waits for that */
  bool dead;    /* ended, or misbehaved: swept at the end of the turn */
  uint64_t sequence;
  mcg_intake intake;
  int received[MCG_FDS_MAX];      /* descriptors of the packet being handled; -1 where taken */
  struct mcg_packet *head, *last; /* direct: packets that did not go out at once */
  uint8_t *out;                   /* framed: bytes that did not go out */
  size_t out_at, out_len, out_cap;
  size_t queued; /* bytes of either */
} mcg_conn;

/* Above this much unsent, nothing more is read from the client and no DATA is made for it. */
#define MCG_CONN_FULL ((size_t)256 << 10)

mcg_conn *mcg_conn_new(int fd, int carrier); /* takes fd unless it fails */
void mcg_conn_free(mcg_conn *conn);

/* Sends a message. The descriptors are borrowed (framed: never any). Failure marks it dead. */
void mcg_conn_send(mcg_conn *conn, mcg_frame_type type, uint32_t channel, uint8_t stream,
                   const mcg_wire *body, const int *fds, unsigned count);
void mcg_conn_send_bytes(mcg_conn *conn, mcg_frame_type type, uint32_t channel, uint8_t stream,
                         const void *bytes, size_t len);
/* Framed: room for one DATA frame of up to MCG_FRAME_MAX bytes to read into; then what it became. */
uint8_t *mcg_conn_data_room(mcg_conn *conn);
void mcg_conn_data_done(mcg_conn *conn, uint32_t channel, uint8_t stream, size_t len);

void mcg_conn_flush(mcg_conn *conn);                      /* it is writable */
void mcg_conn_receive(mcg_conn *conn, mcg_on_message fn); /* it is readable; fn gets conn */

#endif
