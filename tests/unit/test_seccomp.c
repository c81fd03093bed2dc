/* The filters, tried on a forked process: every class of call the tables speak of. */
#include "os/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/caps.h"

enum { SURVIVED = 200 };

struct call {
	long number;
	long args[6];
};

#define CALL(...) ((struct call){__VA_ARGS__})

/* The wait status of a child that makes one call under the filter and exits with its errno. */
static int try_call(enum seccomp_filter filter, struct call call)
{
	int status = 0;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		if (caps_no_new_privs() < 0 || seccomp_install(filter) < 0)
			_exit(SURVIVED + 1);
		long r = syscall(call.number, call.args[0], call.args[1], call.args[2],
		                 call.args[3], call.args[4], call.args[5]);
		_exit(r < 0 ? errno : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static int errno_of(enum seccomp_filter filter, struct call call)
{
	int status = try_call(filter, call);

	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int inside(struct call call)
{
	return errno_of(SECCOMP_QUIET, call);
}

TEST(filters_are_short)
{
	CHECK(seccomp_length(SECCOMP_WORKLOAD) <= 240);
	CHECK_INT(seccomp_length(SECCOMP_WORKLOAD), seccomp_length(SECCOMP_QUIET));
	CHECK(seccomp_length(SECCOMP_KEEPER) <= 160);
	CHECK(seccomp_length(SECCOMP_WORKER) <= 160);
}

TEST(without_no_new_privs_an_ordinary_user_gets_no_filter)
{
	if (geteuid() == 0)
		CHECK_INT(caps_become(65534, 65534, 0), 0);
	CHECK_INT(seccomp_install(SECCOMP_WORKLOAD), -EACCES);
}

TEST(ordinary_calls_work)
{
	CHECK_INT(inside(CALL(SYS_getpid)), 0);
	CHECK_INT(inside(CALL(SYS_read, {-1, 0, 0})), EBADF);
	CHECK_INT(inside(CALL(SYS_openat, {AT_FDCWD, (long)"/", O_RDONLY})), 0);
	CHECK_INT(inside(CALL(SYS_pidfd_open, {0})), EINVAL);
	CHECK_INT(inside(CALL(SYS_landlock_create_ruleset, {0, 0, 0x80000000})), EINVAL);
	CHECK_INT(inside(CALL(SYS_memfd_create, {(long)"x"})), 0);
	CHECK_INT(inside(CALL(SYS_inotify_init1, {0})), 0);
	CHECK_INT(inside(CALL(SYS_ptrace, {PTRACE_TRACEME})), 0);
	CHECK_INT(inside(CALL(SYS_prctl, {PR_SET_CHILD_SUBREAPER, 1})), 0);
	CHECK_INT(inside(CALL(SYS_prctl, {62 /* PR_SCHED_CORE */, 1, 0, 0, 0})), EINVAL);
}

TEST(foreign_calls_of_the_machine_are_denied)
{
	static const long denied[] = {
		SYS_unshare,
		SYS_setns,
		SYS_mount,
		SYS_umount2,
		SYS_pivot_root,
		SYS_open_tree,
		SYS_move_mount,
		SYS_fsopen,
		SYS_fsconfig,
		SYS_fsmount,
		SYS_fspick,
		SYS_mount_setattr,
		SYS_io_uring_setup,
		SYS_io_uring_enter,
		SYS_io_uring_register,
		SYS_bpf,
		SYS_keyctl,
		SYS_add_key,
		SYS_request_key,
		SYS_perf_event_open,
		SYS_userfaultfd,
		SYS_kexec_load,
		SYS_kexec_file_load,
		SYS_init_module,
		SYS_finit_module,
		SYS_delete_module,
		SYS_pidfd_getfd,
		SYS_kcmp,
		SYS_chroot,
		SYS_quotactl,
		SYS_quotactl_fd,
		SYS_swapon,
		SYS_swapoff,
		SYS_reboot,
		SYS_settimeofday,
		SYS_clock_settime,
		SYS_adjtimex,
		SYS_clock_adjtime,
		SYS_acct,
		SYS_syslog,
		SYS_name_to_handle_at,
		SYS_open_by_handle_at,
		SYS_vhangup,
		SYS_fanotify_init,
		SYS_sethostname,
#ifdef __x86_64__
		SYS_iopl,
		SYS_ioperm,
		SYS_modify_ldt,
		SYS_uselib,
#endif
	};

	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_INT(inside((struct call){denied[i], {-1, -1, -1, -1, -1, -1}}), EPERM);
}

TEST(calls_with_a_fallback_look_absent)
{
	CHECK_INT(inside(CALL(SYS_clone3, {0, 0})), ENOSYS);
	CHECK_INT(inside(CALL(SYS_openat2, {AT_FDCWD, (long)"/", 0, 24})), ENOSYS);
	CHECK_INT(inside(CALL(SYS_io_setup, {0, 0})), ENOSYS);
}

TEST(unknown_numbers_look_absent)
{
	CHECK_INT(inside(CALL(1024)), ENOSYS);
	CHECK_INT(inside(CALL(500)), ENOSYS);
	CHECK_INT(inside(CALL(-1)), ENOSYS);
	CHECK_INT(inside(CALL(400)), ENOSYS);
}

#ifdef __x86_64__
TEST(x32_numbers_kill)
{
	int status = try_call(SECCOMP_WORKLOAD, CALL(0x40000000 | SYS_getpid));

	CHECK(WIFSIGNALED(status));
	CHECK_INT(WTERMSIG(status), SIGSYS);
}

TEST(calls_of_another_abi_kill)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		long number = 20; /* getpid for i386 */
		if (caps_no_new_privs() < 0 || seccomp_install(SECCOMP_WORKLOAD) < 0)
			_exit(SURVIVED + 1);
		__asm__ volatile("int $0x80" : "+a"(number) : : "memory");
		_exit(SURVIVED);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	/* SIGSEGV: this kernel has no 32-bit entry at all. */
	CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
}
#endif

TEST(clone_makes_no_namespace_and_no_sibling)
{
	static const unsigned long flags[] = {
		CLONE_NEWUSER,
		CLONE_NEWNS,
		CLONE_NEWPID,
		CLONE_NEWNET,
		CLONE_NEWIPC,
		CLONE_NEWUTS,
		CLONE_NEWCGROUP,
		CLONE_PARENT,
		/* bits the kernel ignores must not hide those it uses */
		CLONE_NEWUSER | 0x100000000ul,
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		CHECK_INT(inside(CALL(SYS_clone, {(long)(flags[i] | SIGCHLD)})), EPERM);
	CHECK_INT(inside(CALL(SYS_clone, {SIGCHLD})), 0);
}

TEST(terminal_injection_is_denied)
{
	CHECK_INT(inside(CALL(SYS_ioctl, {-1, TIOCSTI})), EPERM);
	CHECK_INT(inside(CALL(SYS_ioctl, {-1, TIOCLINUX})), EPERM);
	CHECK_INT(inside(CALL(SYS_ioctl, {-1, TIOCSETD})), EPERM);
	CHECK_INT(inside(CALL(SYS_ioctl, {-1, (long)0xc0c0583b /* FS_IOC_GETFSMAP */})), EPERM);
	/* the kernel only looks at 32 bits */
	CHECK_INT(inside(CALL(SYS_ioctl, {-1, TIOCSTI | 0x100000000})), EPERM);
	CHECK_INT(inside(CALL(SYS_ioctl, {-1, TIOCGWINSZ})), EBADF);
}

TEST(setid_bits_are_denied_wherever_they_are_set)
{
	long path = (long)"/nonexistent/file";

	CHECK_INT(inside(CALL(SYS_fchmod, {-1, 04755})), EPERM);
	CHECK_INT(inside(CALL(SYS_fchmod, {-1, 02755})), EPERM);
	CHECK_INT(inside(CALL(SYS_fchmod, {-1, 01755})), EBADF);
	CHECK_INT(inside(CALL(SYS_fchmodat, {-1, path, 04755})), EPERM);
	CHECK_INT(inside(CALL(452 /* fchmodat2 */, {-1, path, 04755, 0})), EPERM);
	CHECK_INT(inside(CALL(SYS_mkdirat, {AT_FDCWD, path, 04755})), EPERM);
	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, S_IFREG | 04755})), EPERM);
	CHECK_INT(inside(CALL(SYS_openat, {AT_FDCWD, path, O_CREAT | O_RDWR, 04755})), EPERM);
	CHECK_INT(inside(CALL(SYS_openat, {AT_FDCWD, path, O_TMPFILE | O_RDWR, 02755})), EPERM);
	/* without O_CREAT the argument is whatever was in the register */
	CHECK_INT(inside(CALL(SYS_openat, {AT_FDCWD, path, O_RDONLY, 04755})), ENOENT);
#ifdef __x86_64__
	CHECK_INT(inside(CALL(SYS_chmod, {path, 04755})), EPERM);
	CHECK_INT(inside(CALL(SYS_chmod, {path, 0755})), ENOENT);
	CHECK_INT(inside(CALL(SYS_creat, {path, 04755})), EPERM);
	CHECK_INT(inside(CALL(SYS_mkdir, {path, 02755})), EPERM);
	CHECK_INT(inside(CALL(SYS_open, {path, O_CREAT, 04755})), EPERM);
#endif
}

TEST(only_harmless_kinds_of_nodes_are_made)
{
	long path = (long)"/nonexistent/file";

	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, S_IFCHR | 0600, 0x103})), EPERM);
	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, S_IFCHR | 0600, 0})), EPERM);
	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, S_IFBLK | 0600, 0x700})), EPERM);
	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, S_IFIFO | 0600})), ENOENT);
	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, S_IFSOCK | 0600})), ENOENT);
	CHECK_INT(inside(CALL(SYS_mknodat, {AT_FDCWD, path, 0600})), ENOENT);
	/* a rename that leaves a device behind */
	CHECK_INT(inside(CALL(SYS_renameat2, {-1, path, -1, path, 4 /* RENAME_WHITEOUT */})),
	          EPERM);
	CHECK_INT(inside(CALL(SYS_renameat2, {-1, path, -1, path, 1 /* RENAME_NOREPLACE */})),
	          ENOENT);
#ifdef __x86_64__
	CHECK_INT(inside(CALL(SYS_mknod, {path, S_IFCHR | 0600, 0x103})), EPERM);
	CHECK_INT(inside(CALL(SYS_mknod, {path, S_IFIFO | 0600})), ENOENT);
#endif
}

TEST(socket_families_and_kinds)
{
	static const int refused[] = {AF_PACKET, AF_ALG, AF_VSOCK, AF_KEY, AF_BLUETOOTH, AF_CAN};

	CHECK_INT(inside(CALL(SYS_socket, {AF_UNIX, SOCK_STREAM})), 0);
	CHECK_INT(inside(CALL(SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC})), 0);
	CHECK_INT(inside(CALL(SYS_socket, {AF_NETLINK, SOCK_RAW, 0 /* route */})), 0);
	CHECK_INT(inside(CALL(SYS_socket, {AF_NETLINK, SOCK_DGRAM, 15 /* uevent */})),
	          EAFNOSUPPORT);
	CHECK_INT(inside(CALL(SYS_socket, {AF_NETLINK, SOCK_RAW, 12 /* netfilter */})),
	          EAFNOSUPPORT);
	CHECK_INT(inside(CALL(SYS_socket, {AF_INET, SOCK_RAW, 1})), EPERM);
	CHECK_INT(inside(CALL(SYS_socket, {AF_INET6, SOCK_RAW | SOCK_NONBLOCK, 58})), EPERM);
	CHECK_INT(inside(CALL(SYS_socket, {AF_INET, SOCK_PACKET, 3})), ESOCKTNOSUPPORT);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK_INT(inside(CALL(SYS_socket, {refused[i], SOCK_DGRAM})), EAFNOSUPPORT);
}

/* Each of these would load a module of the kernel for whoever asks. */
TEST(of_ip_only_tcp_and_udp)
{
	static const int families[] = {AF_INET, AF_INET6};

	for (int i = 0; i < 2; i++) {
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_STREAM, 6 /* TCP */})), 0);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_DGRAM, 17 /* UDP */})), 0);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_DGRAM})), 0);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_STREAM, 132 /* SCTP */})),
		          EPROTONOSUPPORT);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_STREAM, 262 /* MPTCP */})),
		          EPROTONOSUPPORT);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_DGRAM, 115 /* L2TP */})),
		          EPROTONOSUPPORT);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], SOCK_SEQPACKET})), ESOCKTNOSUPPORT);
		CHECK_INT(inside(CALL(SYS_socket, {families[i], 6 /* SOCK_DCCP */})),
		          ESOCKTNOSUPPORT);
	}
	CHECK_INT(inside(CALL(SYS_setsockopt, {-1, 6 /* SOL_TCP */, 31 /* TCP_ULP */})), ENOENT);
	CHECK_INT(inside(CALL(SYS_setsockopt, {-1, 6 /* SOL_TCP */, 1 /* TCP_NODELAY */})), EBADF);
}

TEST(huge_pages_of_the_host_are_out_of_reach)
{
	CHECK_INT(inside(CALL(SYS_mmap, {0, 4096, PROT_READ,
	                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0})),
	          ENOMEM);
	CHECK_INT(inside(CALL(SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0})),
	          0);
	CHECK_INT(inside(CALL(SYS_memfd_create, {(long)"x", 4 /* MFD_HUGETLB */})), ENOMEM);
	CHECK_INT(inside(CALL(SYS_shmget, {0, 4096, 04600 /* SHM_HUGETLB */})), ENOMEM);
}

/* The kernel runs the host's handler for a crash unless the limit is exactly 1. */
TEST(the_limit_on_core_dumps_stays)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct rlimit one = {.rlim_cur = 1, .rlim_max = 1}, none = {0}, now;
		/* a pointer whose low half is zero must not look like none */
		void *low = mmap((void *)0x700000000000, 4096, PROT_READ | PROT_WRITE,
		                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (setrlimit(RLIMIT_CORE, &one) < 0 || low == MAP_FAILED ||
		    caps_no_new_privs() < 0 || seccomp_install(SECCOMP_WORKLOAD) < 0)
			_exit(1);
		if (setrlimit(RLIMIT_CORE, &none) < 0 ||
		    syscall(SYS_setrlimit, RLIMIT_CORE, &none) < 0 ||
		    syscall(SYS_prlimit64, 0, RLIMIT_CORE, low, NULL) < 0)
			_exit(2);
		if (getrlimit(RLIMIT_CORE, &now) < 0)
			_exit(3);
		_exit(now.rlim_cur == 1 && now.rlim_max == 1 ? 0 : 4);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

TEST(limits_and_personality_of_oneself_only)
{
	CHECK_INT(inside(CALL(SYS_prlimit64, {0, RLIMIT_NOFILE, 0, 0})), 0);
	CHECK_INT(inside(CALL(SYS_prlimit64, {1, RLIMIT_NOFILE, 0, 0})), EPERM);
	CHECK_INT(inside(CALL(SYS_prlimit64, {1, RLIMIT_CORE, 0, 0})), EPERM);
	CHECK_INT(inside(CALL(SYS_personality, {0xffffffff})), 0);
	CHECK_INT(inside(CALL(SYS_personality, {ADDR_NO_RANDOMIZE})), 0);
	CHECK_INT(inside(CALL(SYS_personality, {0x0008 /* PER_LINUX32 */})), EPERM);
	CHECK_INT(inside(CALL(SYS_personality, {READ_IMPLIES_EXEC})), EPERM);
}

TEST(a_program_may_restrict_itself_but_not_listen)
{
	CHECK_INT(inside(CALL(SYS_seccomp, {SECCOMP_GET_ACTION_AVAIL, 0, 0})), EFAULT);
	CHECK_INT(inside(CALL(SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 8 /* NEW_LISTENER */, 0})),
	          EPERM);
}

/* --- calls that are told --- */

enum { HAS_LISTENER = 1, IS_TOLD = 0x100 };

/* Refuses whatever waits until the child is gone; its errno, and IS_TOLD if it waited. */
static int serve(int listener, pid_t child, struct call call)
{
	int status = 0, told = 0;
	struct pollfd ready = {.fd = listener, .events = POLLIN};
	while (waitpid(child, &status, WNOHANG) == 0) {
		struct seccomp_told waits;
		if (listener < 0 || poll(&ready, 1, 20) != 1 || !(ready.revents & POLLIN) ||
		    seccomp_next(listener, &waits) < 0)
			continue;
		told = IS_TOLD;
		if (waits.call != call.number || waits.args[0] != (uint64_t)call.args[0] ||
		    waits.pid != child || seccomp_refuse(listener, waits.id, waits.refusal) < 0)
			_exit(SURVIVED);
	}
	return WIFEXITED(status) ? told | WEXITSTATUS(status) : SURVIVED;
}

/* In a process of its own, which keeps the filter: what a call comes to there. */
static int try_told(struct call call, int flags)
{
	int pipe_fds[2], result = -1, listener = -1;
	CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (caps_no_new_privs() < 0 || seccomp_listen(&listener) < 0)
			_exit(SURVIVED + 1);
		if (!(flags & HAS_LISTENER)) {
			close(listener);
			listener = -1;
		}
		pid_t child = fork();
		if (child == 0) {
			long r = syscall(call.number, call.args[0], call.args[1], call.args[2],
			                 call.args[3], call.args[4], call.args[5]);
			_exit(r < 0 ? errno : 0);
		}
		result = serve(listener, child, call);
		_exit(write(pipe_fds[1], &result, sizeof(result)) != sizeof(result));
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(read(pipe_fds[0], &result, sizeof(result)) == sizeof(result));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return result;
}

TEST(ways_around_the_network_are_told_and_refused)
{
	static const struct call told[] = {
		{SYS_socket, {AF_PACKET, SOCK_RAW, 0x300}},
		{SYS_socket, {AF_VSOCK, SOCK_STREAM}},
		{SYS_socket, {AF_NETLINK, SOCK_RAW, 12}},
		{SYS_socket, {AF_INET, SOCK_RAW, 1}},
		{SYS_socket, {AF_INET6, SOCK_RAW, 58}},
		{SYS_socket, {AF_INET, SOCK_DGRAM, 1}},
		{SYS_socket, {AF_INET, SOCK_SEQPACKET, 132}},
		{SYS_socketpair, {AF_TIPC, SOCK_STREAM}},
		{SYS_setsockopt, {-1, SOL_SOCKET, SO_MARK}},
		{SYS_setsockopt, {-1, SOL_SOCKET, SO_BINDTODEVICE}},
		{SYS_setsockopt, {-1, SOL_SOCKET, 62 /* BINDTOIFINDEX */}},
		{SYS_setsockopt, {-1, 0 /* IP */, 50 /* UNICAST_IF */}},
		{SYS_setsockopt, {-1, 41 /* IPv6 */, 76 /* UNICAST_IF */}},
		{SYS_setsockopt, {-1, 0 /* IP */, 19 /* TRANSPARENT */}},
		{SYS_setsockopt, {-1, 0 /* IP */, 4 /* OPTIONS */}},
		{SYS_setsockopt, {-1, 41 /* IPv6 */, 75 /* TRANSPARENT */}},
		{SYS_setsockopt, {-1, 41 /* IPv6 */, 57 /* RTHDR */}},
		{SYS_io_uring_setup, {4}},
	};
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		CHECK_INT(try_told(told[i], HAS_LISTENER), IS_TOLD | inside(told[i]));
		CHECK_INT(try_told(told[i], 0), ENOSYS); /* nobody listens */
	}
}

TEST(ordinary_sockets_are_told_to_nobody)
{
	static const struct call untold[] = {
		{SYS_socket, {AF_INET, SOCK_STREAM}},
		{SYS_socket, {AF_INET6, SOCK_DGRAM, 17}},
		{SYS_socket, {AF_UNIX, SOCK_STREAM}},
		{SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
		{SYS_socket, {AF_INET, SOCK_STREAM, 262 /* MPTCP */}},
		{SYS_setsockopt, {-1, SOL_SOCKET, SO_REUSEADDR}},
		{SYS_setsockopt, {-1, 6 /* TCP */, 1}},
		{SYS_setsockopt, {-1, 41 /* IPv6 */, 26 /* V6ONLY */}},
	};
	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		CHECK_INT(try_told(untold[i], HAS_LISTENER), inside(untold[i]));
}

TEST(one_filter_of_a_process_has_a_listener)
{
	int listener;
	CHECK_INT(caps_no_new_privs(), 0);
	CHECK_INT(seccomp_listen(&listener), 0);
	/* its own rule forbids a second */
	CHECK_INT(seccomp_listen(&listener), -EPERM);
	close(listener);
}

TEST(under_somebody_else_s_listener_nobody_is_told)
{
	struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog program = {.len = 1, .filter = all};
	int listener;
	CHECK_INT(caps_no_new_privs(), 0);
	int theirs = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
	                          SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	CHECK(theirs >= 0);
	CHECK_INT(seccomp_listen(&listener), -EBUSY);
	CHECK_INT(seccomp_install(SECCOMP_QUIET), 0);
	CHECK(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) < 0);
	CHECK_INT(errno, EAFNOSUPPORT);
	close(theirs);
}

TEST(the_keeper_relays_and_nothing_else)
{
	static const long denied[] = {
		SYS_execve,   SYS_execveat, SYS_clone,  SYS_clone3,       SYS_socket,
		SYS_connect,  SYS_bind,     SYS_ptrace, SYS_kill,         SYS_mount,
		SYS_setns,    SYS_unshare,  SYS_setuid, SYS_memfd_create, SYS_process_vm_readv,
		SYS_fchownat, SYS_mknodat,  SYS_linkat,
	};

	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(denied[i], {-1, -1, -1, -1, -1, -1})),
		          EPERM);
	CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(1024)), ENOSYS);
	CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(SYS_read, {-1})), EBADF);
	CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(SYS_ioctl, {-1, TIOCSWINSZ})), EBADF);
	CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(SYS_ioctl, {-1, TIOCSTI})), EPERM);
	CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC,
	                                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0})),
	          EPERM);
	CHECK_INT(errno_of(SECCOMP_KEEPER, CALL(SYS_prctl, {PR_SET_DUMPABLE, 1})), EPERM);
}

TEST(the_worker_handles_files_and_nothing_else)
{
	static const long denied[] = {
		SYS_execve, SYS_socket,  SYS_connect, SYS_ptrace, SYS_kill,           SYS_mount,
		SYS_setns,  SYS_unshare, SYS_setuid,  SYS_bpf,    SYS_io_uring_setup, SYS_accept4,
	};
	long path = (long)"/nonexistent/file";

	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_INT(errno_of(SECCOMP_WORKER, CALL(denied[i], {-1, -1, -1, -1, -1, -1})),
		          EPERM);
	CHECK_INT(errno_of(SECCOMP_WORKER, CALL(SYS_clone, {SIGCHLD})), EPERM);
	CHECK_INT(errno_of(SECCOMP_WORKER, CALL(SYS_clone3, {0, 0})), ENOSYS);
	CHECK_INT(errno_of(SECCOMP_WORKER, CALL(SYS_mknodat, {AT_FDCWD, path, S_IFCHR, 0x103})),
	          EPERM);
	CHECK_INT(errno_of(SECCOMP_WORKER, CALL(SYS_mknodat, {AT_FDCWD, path, S_IFCHR, 0})),
	          ENOENT);
	CHECK_INT(errno_of(SECCOMP_WORKER, CALL(SYS_fchownat, {AT_FDCWD, path, 0, 0, 0})), ENOENT);
	CHECK_INT(errno_of(SECCOMP_WORKER, CALL(SYS_symlinkat, {path, AT_FDCWD, path})), ENOENT);
}
