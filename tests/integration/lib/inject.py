"""Makes another process (x86-64) do one system call and prints what came of it: what a process that
was taken over could do. Usage: inject.py PID, then lines "NUMBER ARG..." on standard input, where an
argument is a number or a text in quotes, which is put on the other's stack."""
import ctypes, json, os, shlex, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
PEEK, POKE, GETREGS, SETREGS, STEP, ATTACH, DETACH = 1, 4, 12, 13, 9, 16, 17
NAMES = 'r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs'.split()


class Regs(ctypes.Structure):
	_fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


def ptrace(request, pid, addr=0, data=0):
	ctypes.set_errno(0)
	result = libc.ptrace(request, pid, addr, data)
	if result == -1 and ctypes.get_errno():
		raise OSError(ctypes.get_errno(), f'ptrace {request}')
	return result


def call(pid, number, arguments):
	saved, regs = Regs(), Regs()
	ptrace(GETREGS, pid, 0, ctypes.addressof(saved))
	ctypes.pointer(regs)[0] = saved
	code = ptrace(PEEK, pid, saved.rip) & (2**64 - 1)
	at = saved.rsp - 8192
	values = []
	for argument in arguments:
		if isinstance(argument, bytes):
			padded = argument + b'\0' * (8 - len(argument) % 8)
			for i in range(0, len(padded), 8):
				ptrace(POKE, pid, at + i, int.from_bytes(padded[i : i + 8], 'little'))
			values.append(at)
			at += len(padded)
		else:
			values.append(argument & (2**64 - 1))
	regs.rax, regs.orig_rax = number, 2**64 - 1
	for name, value in zip(('rdi', 'rsi', 'rdx', 'r10', 'r8', 'r9'), values + [0] * 6):
		setattr(regs, name, value)
	ptrace(POKE, pid, saved.rip, (code & ~0xFFFF) | 0x050F)
	ptrace(SETREGS, pid, 0, ctypes.addressof(regs))
	ptrace(STEP, pid)
	os.waitpid(pid, 0)
	ptrace(GETREGS, pid, 0, ctypes.addressof(regs))
	ptrace(POKE, pid, saved.rip, code)
	ptrace(SETREGS, pid, 0, ctypes.addressof(saved))
	return ctypes.c_longlong(regs.rax).value


def main():
	pid = int(sys.argv[1])
	ptrace(ATTACH, pid)
	os.waitpid(pid, 0)
	results = []
	try:
		for line in sys.stdin:
			words = shlex.split(line, posix=False)
			if not words:
				continue
			arguments = [word[1:-1].encode() if word[0] == '"' else int(word, 0) for word in words[1:]]
			results.append(call(pid, int(words[0]), arguments))
	finally:
		ptrace(DETACH, pid)
	print(json.dumps(results))


main()
