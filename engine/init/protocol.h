/* protocol.h: what the engine and the mooncage-init in a sandbox say to each other. Version 1.
 *
 * FRAMES. Everything is a frame: a 24-byte header, then at most 64 KiB of payload.
 *   u32 length | u8 type | u8 flags | u8 stream | u8 fds | u32 channel | u32 zero | u64 sequence
 * Little-endian. `sequence` counts the frames of one direction from 1; a gap or repeat is a protocol
 * error. A message longer than one frame is sent as several with MCG_FRAME_MORE on all but the last,
 * same type and channel, nothing of that channel in between; all together at most MCG_WIRE_MAX.
 *
 * CARRIERS. Direct: each frame is one SOCK_SEQPACKET packet, descriptors attached as `fds` says; the
 * bytes of commands travel through pipes passed with STARTED, never in DATA. Framed: frames follow
 * each other on one byte stream, `fds` is 0, bytes travel in DATA under credit.
 *
 * CHANNELS. 0 is the connection. Others are commands: the engine picks numbers, never twice.
 *
 * CREDIT (framed only). DATA of a stream may be sent while its window lasts: MCG_WINDOW bytes at
 * first, each direction and stream its own. The receiver grants more with CREDIT as it consumes.
 * Every other type is control and never waits. init stops reading a command's pipe at zero credit.
 *
 * MESSAGES. E: engine to init. I: init to engine. Bodies are fields (wire.h) with the tags below.
 *   HELLO  E  VERSION                                       first frame of the engine
 *   HELLO  I  VERSION, MECHANISM* ("name=value"), PID, SOCKET* [+ as many fds]   the sandbox stands and
 *             is confined. SOCKETs are those of a gateway, to the first client alone; each says what
 *             the descriptor in its place is (enum mcg_socket_kind)
 *   FAILED I  STEP, ERRNO, TEXT                             instead of HELLO: set-up failed; end of stream follows
 *   EXEC   E  ARG+, ENV*, CWD, USER, FLAGS, COLS, ROWS, LIMIT*   start a command on this channel
 *   STARTED I PID [+ fds: stdin write end unless NO_STDIN, stdout read end, stderr read end unless
 *             PTY; with PTY one fd, the master; with DETACH none]  always the first answer, or ERROR
 *   ERROR  I  ERRNO, STEP, TEXT                             EXEC could not be tried (no processes, memory)
 *   DATA   *  raw bytes of `stream` (0 stdin to init; 1 stdout, 2 stderr to the engine)
 *   EOF    *  the sender has no more for `stream`. Framed: after EXIT it comes as soon as what the pipe
 *             held at the exit has been sent; what background children write later is dropped
 *   CREDIT *  BYTES for `stream`
 *   CLOSE  E  the engine reads `stream` no more: init goes on draining it and drops the bytes
 *   SIGNAL E  SIGNO to the main process (to the foreground group with PTY)
 *   RESIZE E  COLS, ROWS
 *   KILL   E  SIGKILL to the command's whole tree, escaped grandchildren included. On channel 0: to every
 *             command's, of all clients, detached ones too, until none lives; GONE on channel 0 tells that
 *   EXIT   I  CODE or SIGNO, CPU_US, MAXRSS_KB, and ERRNO+STEP+TEXT where the program could not be
 *             executed (CODE 127 for ENOENT/ENOTDIR, else 126) or a built-in failed
 *             Framed: what was in the command's pipes when it ended follows EXIT under credit if it could
 *             not go before, and then EOF of each stream, also where a background child holds the pipe
 *             (init drains and drops what that one writes). The engine takes both EOFs as the end.
 *   GONE   I  nothing of this command's tree lives any more; the channel is over. Framed: after the EOFs;
 *             of a killed command with a stream at zero credit, the rest of that stream is dropped
 *   PING/PONG *  heartbeat, payload echoed
 *   LISTEN E  ADDRESS, PORT: a listening TCP socket, on a channel that is over with the answer, which is
 *   CONNECT E ADDRESS, PORT: a TCP socket that connects from within; it may still be under way
 *             STARTED [+ 1 fd], or ERROR. Direct only: init has made the socket and keeps no copy
 *   ATTACH E  [+ 1 fd] serve one more client on this SOCK_SEQPACKET; its commands die with it unless
 *             DETACH, and its channels are its own
 *   STOP   E  kill everything and leave
 *
 * BUILT-INS. EXEC with MCG_EXEC_BUILTIN runs a function of init in a child confined like a command;
 * ARG[0] is its name. Paths as in mooncage.h. Output is on stdout, input on stdin, failure in EXIT:
 * errno and text, which ends in a newline and what to do (or nothing).
 *   read PATH [OFFSET [LENGTH]]   bytes of a regular file
 *   write PATH MODE(octal) [LENGTH]   stdin to a temporary file beside it, renamed into place; fewer
 *                                 bytes than LENGTH: an error, and nothing changes
 *   list PATH | stat PATH         MCG_ENTRY records (below), in no order; a link itself, not its target
 *   mkdir PATH MODE | remove PATH | move FROM TO
 *   pack PATH [EXCLUDE...]        plain tar (pax) of the tree; sockets, fifos, devices are left out, and
 *                                 each EXCLUDE with what is below it: a path in the tree, in which *, ?
 *                                 and [...] stand for what no "/" is in, and \\ takes that from the next;
 *                                 what comes after a leading "**" and "/" is matched at any depth
 *   pack-own PATH [EXCLUDE...]    the same, without what is mounted in it
 *   pack-strict PATH              the same, but a symlink or special file in the tree is an error
 *   unpack PATH                   tar from stdin, all of it or nothing; files, directories, symlinks, hard
 *                                 links to earlier files; mode & 0777; "..", absolute names, devices, a
 *                                 name twice as two kinds, caps of tar.h: MCG_EUNSAFE
 *   unpack-strict PATH            the same, but a symbolic link in it is an error
 *   replace PATH [HOSTS...]       as unpack; what the directory held goes once all that is new is in its place,
 *                                 but for what is mounted there, where the archive must have nothing. PATH
 *                                 lying in one of HOSTS, paths: EOPNOTSUPP
 *   processes                     MCG_PROCESS records
 *   changes OLD NEW               what differs between two trees, records of project.h, no data
 *   changeset OLD NEW             the same with the data of added and modified files
 *   apply DIR SECONDS NANOSECONDS GIT(0|1)   a changeset from stdin to DIR: plain sandboxes only
 *   disk PATH                     "used total files" of the file system in decimal */
#ifndef MCG_PROTOCOL_H
#define MCG_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCG_PROTOCOL_VERSION 1

/* Of a built-in that refuses an archive: no system call gives it for a file. */
#define MCG_EUNSAFE EBADE

#define MCG_FRAME_HEADER 24
#define MCG_FRAME_MAX 65536
#define MCG_WINDOW (256u << 10)
#define MCG_FDS_MAX 5

enum mcg_frame_flag { MCG_FRAME_MORE = 1 };

typedef enum mcg_type_of_frame {
  MCG_F_HELLO = 1,
  MCG_F_FAILED,
  MCG_F_EXEC,
  MCG_F_STARTED,
  MCG_F_ERROR,
  MCG_F_DATA,
  MCG_F_EOF,
  MCG_F_CREDIT,
  MCG_F_CLOSE,
  MCG_F_SIGNAL,
  MCG_F_RESIZE,
  MCG_F_KILL,
  MCG_F_EXIT,
  MCG_F_GONE,
  MCG_F_PING,
  MCG_F_PONG,
  MCG_F_ATTACH,
  MCG_F_STOP,
  MCG_F_LISTEN,
  MCG_F_CONNECT,
  MCG_F_LAST = MCG_F_CONNECT
} mcg_frame_type;

enum mcg_tag {
  MCG_TAG_VERSION = 1,
  MCG_TAG_MECHANISM,
  MCG_TAG_PID,
  MCG_TAG_STEP,
  MCG_TAG_ERRNO,
  MCG_TAG_TEXT,
  MCG_TAG_ARG,
  MCG_TAG_ENV,
  MCG_TAG_CWD,
  MCG_TAG_USER, /* "name", "uid" or "uid:gid" */
  MCG_TAG_FLAGS,
  MCG_TAG_COLS,
  MCG_TAG_ROWS,
  MCG_TAG_LIMIT, /* u32 resource, u32 zero, u64 value: soft and hard */
  MCG_TAG_BYTES,
  MCG_TAG_SIGNO,
  MCG_TAG_CODE,
  MCG_TAG_CPU_US,
  MCG_TAG_MAXRSS_KB,
  MCG_TAG_SOCKET,  /* enum mcg_socket_kind */
  MCG_TAG_ADDRESS, /* 4 bytes or 16, as they travel */
  MCG_TAG_PORT
};

/* What a sandbox with a gateway hands over. */
enum mcg_socket_kind {
  MCG_SOCKET_STUB_UDP, /* names are asked for here: 127.0.0.1:53 */
  MCG_SOCKET_STUB_TCP, /* the same, listening */
  MCG_SOCKET_REFUSED, /* a packet socket that sees what the kernel refused: IP packets from their header */
  MCG_SOCKET_REDIRECT_4, /* with a redirect: listeners that every TCP connection comes to but those */
  MCG_SOCKET_REDIRECT_6, /* to loopback, a name's address and a listener's port included */
  MCG_SOCKETS
};
/* Who a sandbox with a gateway is. Names get addresses near by. */
#define MCG_OWN_ADDRESS_4 "198.18.0.1"
#define MCG_OWN_ADDRESS_6 "fd00::1"

enum mcg_exec_flag {
  MCG_EXEC_PTY = 1,
  MCG_EXEC_DETACH = 2,   /* outlives its connection; streams are /dev/null unless redirected */
  MCG_EXEC_NO_STDIN = 4, /* stdin is /dev/null */
  MCG_EXEC_BUILTIN = 8
};

typedef struct mcg_frame {
  uint32_t length;
  uint8_t type, flags, stream, fds;
  uint32_t channel;
  uint64_t sequence;
} mcg_frame;

void mcg_frame_encode(const mcg_frame *frame, uint8_t out[MCG_FRAME_HEADER]);
/* False: hostile (unknown type or flag, too long, a stream above 2, nonzero reserve, too many fds). */
bool mcg_frame_decode(const uint8_t in[MCG_FRAME_HEADER], mcg_frame *out);

/* One record of `list` and `stat`, packed little-endian, then the name, then the link's target. */
#define MCG_ENTRY_HEADER 48
typedef struct mcg_entry {
  uint32_t mode, uid, gid, nlink; /* mode with the type bits of stat(2) */
  uint64_t size, inode;
  int64_t mtime_s;
  uint32_t mtime_ns;
  uint16_t name_len, target_len;
} mcg_entry;
void mcg_entry_encode(const mcg_entry *entry, uint8_t out[MCG_ENTRY_HEADER]);
void mcg_entry_decode(const uint8_t in[MCG_ENTRY_HEADER], mcg_entry *out);

/* One record of `processes`, packed, then the command line (NULs as they are). */
#define MCG_PROCESS_HEADER 32
typedef struct mcg_process_entry {
  uint32_t pid, ppid, uid;
  uint32_t state; /* the letter of proc(5) */
  uint64_t rss_kb;
  uint32_t command_len;
} mcg_process_entry;
void mcg_process_encode(const mcg_process_entry *entry, uint8_t out[MCG_PROCESS_HEADER]);
void mcg_process_decode(const uint8_t in[MCG_PROCESS_HEADER], mcg_process_entry *out);

#endif
