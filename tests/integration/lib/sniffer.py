"""Every packet that comes in on an interface, as JSON lines: protocol, destination, port."""
import json
import socket
import struct
import sys

IN = {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp6"}


def ports(proto, rest):
    return struct.unpack("!H", rest[2:4])[0] if proto in (6, 17) and len(rest) >= 4 else 0


def describe(frame):
    kind = struct.unpack("!H", frame[12:14])[0]
    packet = frame[14:]
    if kind == 0x0800:
        proto, to, rest = packet[9], socket.inet_ntop(socket.AF_INET, packet[16:20]), packet[(packet[0] & 15) * 4 :]
    elif kind == 0x86DD:
        proto, to, rest = packet[6], socket.inet_ntop(socket.AF_INET6, packet[24:40]), packet[40:]
        if proto in (0, 58):
            return None  # neighbour and listener discovery of the link itself
    else:
        return None
    return {"proto": IN.get(proto, str(proto)), "to": to, "port": ports(proto, rest)}


def main():
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    tap.bind((sys.argv[1], 0))
    print(json.dumps({"ready": True}), flush=True)
    last = None
    while True:
        frame, where = tap.recvfrom(256)
        if where[2] == socket.PACKET_OUTGOING:
            continue
        row = describe(frame)
        if row and row != last:
            print(json.dumps(row), flush=True)
        last = row


main()
