#!/usr/bin/env python3
"""servers.py DIR: the servers of the network that network.py makes: DNS on 11.0.0.53, and on all other
addresses TCP and UDP on PORTS, TLS on those of TLS.

Zone: DIR/zone.json, read anew for each question: {name: {"A": [answer, ...], "AAAA": ..., "CNAME": name}},
where an answer is a list of addresses; each question takes the next answer, the last stays; "*.a.b" is for
all names under a.b. What came is
a line in DIR/log: "dns NAME TYPE", "tcp ADDRESS PORT", "udp ADDRESS PORT TEXT", "tls ADDRESS PORT SNI".
A server says first which it is, "here ADDRESS PORT", and then sends back what it gets."""

import json
import os
import socket
import ssl
import struct
import sys
import threading

PORTS = (22, 25, 53, 80, 443, 4443, 8080, 9100)
TLS = (8443,)
DNS = "11.0.0.53"
lock, asked = threading.Lock(), {}


def log(*words):
    line = " ".join(str(w) for w in words) + "\n"
    with lock, open(sys.argv[1] + "/log", "a") as file:
        file.write(line)


def name_in(packet, at):
    labels = []
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("latin-1"))
        at += 1 + packet[at]
    return ".".join(labels).lower(), at + 1


def encoded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def answer(packet):
    name, end = name_in(packet, 12)
    kind = struct.unpack(">H", packet[end:end + 2])[0]
    word = {1: "A", 28: "AAAA"}.get(kind, str(kind))
    log("dns", name, word)
    with open(sys.argv[1] + "/zone.json") as file:
        zone = json.load(file)
    records, owner = b"", name
    count = 0
    while "CNAME" in zone.get(owner, {}) and count < 8:
        target = zone[owner]["CNAME"]
        data = encoded(target)
        records += encoded(owner) + struct.pack(">HHIH", 5, 1, 0, len(data)) + data
        owner, count = target, count + 1
    if owner not in zone:  # "*.a.b" stands for all names under a.b that are not there
        owner = next((k for k in zone if k.startswith("*.") and owner.endswith(k[1:])), owner)
    answers = zone.get(owner, {}).get(word, [])
    if answers:
        with lock:
            turn = asked.get((owner, word), 0)
            asked[(owner, word)] = turn + 1
        for address in answers[min(turn, len(answers) - 1)]:
            data = socket.inet_pton(socket.AF_INET6 if word == "AAAA" else socket.AF_INET, address)
            records += encoded(name if owner.startswith("*") else owner) + struct.pack(">HHIH", kind, 1, 0, len(data)) + data
            count += 1
    code = 0 if owner in zone else 3
    return packet[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, count, 0, 0) + packet[12:end + 4] + records


def dns_udp(server):
    while True:
        packet, sender = server.recvfrom(4096)
        try:
            server.sendto(answer(packet), sender)
        except (OSError, IndexError, struct.error, KeyError) as error:
            log("dns-error", repr(error))


def dns_tcp(connection):
    while len(head := connection.recv(2, socket.MSG_WAITALL)) == 2:
        packet = connection.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL)
        reply = answer(packet)
        connection.sendall(struct.pack(">H", len(reply)) + reply)


def talk(connection, context):
    address, port = connection.getsockname()[:2]
    address = address.removeprefix("::ffff:")
    try:
        if port == 53 and address == DNS:
            return dns_tcp(connection)
        if context:
            names = []
            context.sni_callback = lambda _s, name, _c: names.append(name)
            connection = context.wrap_socket(connection, server_side=True)
            log("tls", address, port, names[0] if names else "-")
        else:
            log("tcp", address, port)
        connection.sendall(b"here %s %d\n" % (address.encode(), port))
        while data := connection.recv(65536):
            connection.sendall(data)
    except OSError:
        pass
    finally:
        connection.close()


def accept(server, context):
    while True:
        connection, _ = server.accept()
        threading.Thread(target=talk, args=(connection, context), daemon=True).start()


def udp(server, port):
    while True:
        data, ancillary, _, sender = server.recvmsg(2048, 256)
        to = "?"
        for _, kind, body in ancillary:
            if kind == socket.IPV6_PKTINFO:
                to = socket.inet_ntop(socket.AF_INET6, body[:16]).removeprefix("::ffff:")
        log("udp", to, port, data[:40].hex())
        server.sendmsg([b"here %s %d\n" % (to.encode(), port)], ancillary, 0, sender)


def main():
    threads = []
    for port in PORTS + TLS:
        server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("::", port))
        server.listen(1024)
        context = None
        if port in TLS:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[1] + "/tls.pem")
        threads.append(threading.Thread(target=accept, args=(server, context), daemon=True))
        if port == 53:
            continue
        server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        server.bind(("::", port))
        threads.append(threading.Thread(target=udp, args=(server, port), daemon=True))
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((DNS, 53))
    threads.append(threading.Thread(target=dns_udp, args=(server,), daemon=True))
    for thread in threads:
        thread.start()
    os.write(1, b"ready\n")
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
