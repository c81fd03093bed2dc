/*
 * E11, E12: other processes. Argument: pid=N, a process of the host (its number there). Process 1
 * inside stands for the supervisor.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "probe.h"

static int host_pid(void)
{
	return (int)probe_number("pid", 0);
}

static struct verdict signal_host(void)
{
	return REFUSED(kill(host_pid(), SIGKILL), ESRCH, EPERM);
}

static struct verdict signal_host_group(void)
{
	return REFUSED(kill(-host_pid(), SIGKILL), ESRCH, EPERM);
}

static struct verdict signal_host_thread(void)
{
	return REFUSED(syscall(SYS_tgkill, host_pid(), host_pid(), SIGKILL), ESRCH, EPERM);
}

static struct verdict queue_to_host(void)
{
	siginfo_t info = {.si_signo = SIGKILL, .si_code = SI_QUEUE};
	return REFUSED(syscall(SYS_rt_sigqueueinfo, host_pid(), SIGKILL, &info), ESRCH, EPERM);
}

static struct verdict pidfd_of_host(void)
{
	return REFUSED(syscall(SYS_pidfd_open, host_pid(), 0), ESRCH, EPERM, EINVAL);
}

static struct verdict host_in_proc(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", host_pid());
	return cannot_open(path, O_RDONLY);
}

static struct verdict attach_supervisor(void)
{
	return REFUSED(ptrace(PTRACE_ATTACH, 1, NULL, NULL), EPERM, EACCES, ESRCH);
}

static struct verdict seize_supervisor(void)
{
	return REFUSED(ptrace(PTRACE_SEIZE, 1, NULL, NULL), EPERM, EACCES, ESRCH);
}

static struct verdict read_supervisor(void)
{
	char bytes[8];
	struct iovec local = {bytes, sizeof(bytes)}, remote = {(void *)0x400000, sizeof(bytes)};
	return REFUSED(process_vm_readv(1, &local, 1, &remote, 1, 0), EPERM, EACCES, ESRCH);
}

static struct verdict write_supervisor(void)
{
	char bytes[8] = "";
	struct iovec local = {bytes, sizeof(bytes)}, remote = {(void *)0x400000, sizeof(bytes)};
	return REFUSED(process_vm_writev(1, &local, 1, &remote, 1, 0), EPERM, EACCES, ESRCH);
}

static struct verdict steal_descriptor(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	if (pidfd < 0)
		return REFUSED(pidfd, EPERM, ENOSYS, EACCES);
	return REFUSED(syscall(SYS_pidfd_getfd, pidfd, 0, 0), EPERM, EACCES, ENOSYS);
}

static struct verdict supervisor_file(const char *name, int flags)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/1/%s", name);
	return cannot_open(path, flags);
}

static struct verdict supervisor_memory(void)
{
	return supervisor_file("mem", O_RDWR);
}

static struct verdict supervisor_maps(void)
{
	return supervisor_file("maps", O_RDONLY);
}

static struct verdict supervisor_environment(void)
{
	return supervisor_file("environ", O_RDONLY);
}

static struct verdict supervisor_descriptors(void)
{
	return supervisor_file("fd", O_RDONLY | O_DIRECTORY);
}

static struct verdict supervisor_namespaces(void)
{
	return supervisor_file("ns/mnt", O_RDONLY);
}

static struct verdict supervisor_root(void)
{
	return supervisor_file("root", O_RDONLY | O_DIRECTORY);
}

/* Process 1 of a pid namespace ignores SIGKILL from inside; an error is as good. What must not
 * happen is that it is gone afterwards. */
static struct verdict kill_supervisor(void)
{
	static const int signals[] = {SIGKILL, SIGSTOP, SIGTERM, SIGINT, SIGSEGV, SIGUSR1, SIGHUP};
	for (size_t i = 0; i < ATTEMPT_COUNT(signals); i++)
		kill(1, signals[i]);
	usleep(100 * 1000);
	char state = '?';
	FILE *file = fopen("/proc/1/stat", "re");
	if (file) {
		if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = '?';
		fclose(file);
	}
	return strchr("SRD", state) ? held(0, "still there, state %c", state)
	                            : broken("state %c", state);
}

static struct verdict schedule_supervisor(void)
{
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	return REFUSED(sched_setaffinity(1, sizeof(cpus), &cpus), EPERM, EACCES, ESRCH);
}

static struct verdict renice_supervisor(void)
{
	return REFUSED(setpriority(PRIO_PROCESS, 1, 19), EPERM, EACCES, ESRCH);
}

static struct verdict compare_supervisor(void)
{
	return REFUSED(syscall(SYS_kcmp, 1, getpid(), 0 /* KCMP_FILE */, 0, 0), EPERM, EACCES,
	               ENOSYS);
}

static const struct attempt attempts[] = {
	{"E12", "kill a host process", signal_host, NEEDS_ARG, "pid"},
	{"E12", "kill a host group", signal_host_group, NEEDS_ARG, "pid"},
	{"E12", "tgkill a host process", signal_host_thread, NEEDS_ARG, "pid"},
	{"E12", "queue a signal to the host", queue_to_host, NEEDS_ARG, "pid"},
	{"E12", "pidfd of a host process", pidfd_of_host, NEEDS_ARG, "pid"},
	{"E12", "host process in /proc", host_in_proc, NEEDS_ARG, "pid"},
	{"E12", "kill the supervisor", kill_supervisor, 0, NULL},
	{"E11", "ptrace attach", attach_supervisor, 0, NULL},
	{"E11", "ptrace seize", seize_supervisor, 0, NULL},
	{"E11", "process_vm_readv", read_supervisor, 0, NULL},
	{"E11", "process_vm_writev", write_supervisor, 0, NULL},
	{"E11", "pidfd_getfd", steal_descriptor, 0, NULL},
	{"E11", "supervisor's memory", supervisor_memory, 0, NULL},
	{"E11", "supervisor's maps", supervisor_maps, 0, NULL},
	{"E11", "supervisor's environment", supervisor_environment, 0, NULL},
	{"E11", "supervisor's descriptors", supervisor_descriptors, 0, NULL},
	{"E11", "supervisor's namespaces", supervisor_namespaces, 0, NULL},
	{"E11", "supervisor's root", supervisor_root, 0, NULL},
	{"E11", "supervisor's affinity", schedule_supervisor, 0, NULL},
	{"E11", "supervisor's priority", renice_supervisor, 0, NULL},
	{"E11", "kcmp", compare_supervisor, 0, NULL},
};

const struct topic topic_processes = {"processes", attempts, ATTEMPT_COUNT(attempts)};
