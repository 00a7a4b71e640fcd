/* Interrupts on Unix. This file sends SIGINT, which R handles on its main thread. */
#include "shim.h"
#ifndef _WIN32

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <ucontext.h>
#endif

extern __attribute__((weak)) int dladdr(const void *, Dl_info *); /* some C libraries have it elsewhere */

R_API void (*R_PolledEvents)(void);

static atomic_bool forced;
static void (*others_events)(void);

/* R before 4.2 may leave its handler of select() installed when it jumps out of there. With the next
 * SIGINT it would jump back into a stack frame that no longer exists. */
static struct sigaction regular; /* R's own handler outside of select() */
static void *r_itself;           /* the object file with that handler */

static void *object_of(void (*function)(int)) {
	Dl_info found;
	return dladdr != NULL && dladdr((void *)function, &found) != 0 ? found.dli_fbase : NULL;
}

void interrupt_mend(void) {
	struct sigaction now;
	if (r_itself != NULL && sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != regular.sa_handler && object_of(now.sa_handler) == r_itself)
		sigaction(SIGINT, &regular, NULL);
}

/* events is called by R wherever it checks for interrupts. An interrupt of level 2 jumps from there,
 * without any handler of user code. Our own code is left only by the SIGINT that follows, because
 * a jump would end there. */
static void events(void) {
	if (others_events != NULL)
		others_events();
	interrupt_mend();
	if (!forked && !code_running() && interrupt_forced())
		Rf_jump_to_toplevel();
}

enum { MOMENT = 20000, MOMENTS = 25000 }; /* ns; 500 ms in all, for threads and children that get no processor */

static void wait_moment(void) {
	struct timespec moment = {0, MOMENT};
	nanosleep(&moment, NULL);
}

bool interrupt_forced(void) { return atomic_exchange(&forced, false); }

/* read_file reads a file of /proc. A signal handler may call it. */
static size_t read_file(const char *path, char *to, size_t room) {
	int f = *path != 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = f >= 0 ? read(f, to, room - 1) : 0;
	if (f >= 0)
		close(f);
	n = n > 0 ? n : 0;
	to[n] = 0;
	return (size_t)n;
}

#ifdef __linux__
/* SIGINT must be handled by the main thread, since R's handler jumps. The kernel delivers a second
 * SIGINT shortly after to any thread that does not block it, such as those of OpenBLAS, which ends
 * the process. So all other threads are made to block it, by a signal that each of them handles.
 * New threads appear later, so this is repeated before each SIGINT. */
static atomic_int handled;
static pid_t hardened[256]; /* thread numbers, used in turn; only the reader thread touches it once R runs */
static size_t next_hardened;
enum { HARDEN_MOMENTS = MOMENTS / 10 };

/* has_sigint reports whether SIGINT is in a signal set of a status file in /proc. */
static bool has_sigint(const char *status, const char *set) {
	const char *mask = strstr(status, set);
	if (mask == NULL)
		return false;
	mask += strlen(set) + 8; /* the lower half of its digits */
	return number(&mask, 16) >> (SIGINT - 1) & 1;
}

/* blocks_it reports whether a thread blocks SIGINT already. */
static bool blocks_it(pid_t thread) {
	char path[64], status[4096];
	snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
	read_file(path, status, sizeof status);
	return has_sigint(status, "\nSigBlk:\t");
}

static void block_in_context(int sig, siginfo_t *info, void *context) {
	(void)sig;
	(void)info;
	sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGINT);
	atomic_fetch_add(&handled, 1);
}

static bool is_hardened(pid_t thread) {
	for (size_t i = 0; i < sizeof hardened / sizeof *hardened; i++)
		if (hardened[i] == thread)
			return true;
	return false;
}

static void harden(void) {
	DIR *threads = opendir("/proc/self/task");
	if (threads == NULL)
		return;
	pid_t self = (pid_t)syscall(SYS_gettid);
	struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_RESTART}, before;
	ours.sa_sigaction = block_in_context;
	int sent = 0;
	atomic_store(&handled, 0);
	for (struct dirent *e; (e = readdir(threads)) != NULL;) {
		const char *name = e->d_name;
		pid_t thread = (pid_t)number(&name, 10);
		if (thread <= 0 || thread == getpid() || thread == self || is_hardened(thread))
			continue;
		if (blocks_it(thread)) {
			hardened[next_hardened++ % (sizeof hardened / sizeof *hardened)] = thread;
			continue;
		}
		if (sent == 0)
			sigaction(SIGURG, &ours, &before);
		if (syscall(SYS_tgkill, getpid(), thread, SIGURG) == 0)
			sent++; /* the next call checks whether the thread handled it */
	}
	closedir(threads);
	if (sent == 0)
		return;
	for (int i = 0; i < HARDEN_MOMENTS && atomic_load(&handled) < sent; i++) /* a thread may block SIGURG */
		wait_moment();
	sigaction(SIGURG, &before, NULL);
}
#else
static void harden(void) {}
#endif

/* R does not always take an interrupt when SIGINT is sent:
 *
 *  - In system() R ignores SIGINT, from a moment before the child exists. Afterwards it
 *    continues, perhaps with the next child.
 *  - R may be about to start a child, and waits for that first.
 *  - A read() of the terminal or a pipe is restarted after R's handler.
 *  - R waits for a child that SIGINT does not reach.
 *
 * So the reader thread checks for a while whether R has taken it. A child gets SIGINT once, because
 * it may handle it. At level 2 it gets more. */
enum { CHASE_EVERY = 5, CHASE_FOR = 3000, CHASE_DOUBT = 100, CHASE_AGAIN = 500 }; /* ms; DOUBT: R may not have run since */

static int chases;            /* left; used only by the reader thread, as are the variables below */
static bool spared;           /* R itself has not received SIGINT yet */
static bool insists;          /* it is of level 2: children get SIGINT again, too */
static bool lists;            /* the kernel lists children */
static char children[1024];   /* that had SIGINT, as it lists them */
static char main_state[64];   /* paths below /proc of the main thread */
static char main_children[64];

/* in_system reports whether SIGINT is ignored: R waits for a child in system(). */
static bool in_system(void) {
	struct sigaction now;
	return sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* remember records an interrupt until R is back from system(). */
static void remember(void) {
	if (in_system())
		R_interrupts_pending = 1;
}

#ifdef __linux__
enum { START_TICKS = 5 };

static void nothing(int sig) { (void)sig; }

/* sits_in reports whether the main thread is in that system call. argument receives its first
 * argument. */
static bool sits_in(long call, long *argument) {
	char state[64];
	const char *at = state;
	if (read_file(main_state, state, sizeof state) == 0 || number(&at, 10) != call || strncmp(at, " 0x", 3) != 0)
		return false;
	at += 3;
	*argument = number(&at, 16);
	return true;
}

static bool is_reading(void) {
	long fd;
	return sits_in(SYS_read, &fd);
}

/* catches reports whether the child may have survived SIGINT. */
static bool catches(pid_t child) {
	char path[64], status[4096];
	snprintf(path, sizeof path, "/proc/%d/status", (int)child);
	read_file(path, status, sizeof status);
	return has_sigint(status, "\nSigCgt:\t");
}

/* begins reports whether a process has just started: it has neither blocked yet nor used the
 * processor for some ticks. */
static bool begins(pid_t process) {
	char path[64], stat[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
	read_file(path, stat, sizeof stat);
	const char *at = strrchr(stat, ')');
	if (at == NULL || (strncmp(at, ") R", 3) != 0 && strncmp(at, ") D", 3) != 0))
		return false;
	at += 3;
	long fields[12] = {0}; /* the last two: user and system time */
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		at += strspn(at, " -");
		fields[i] = number(&at, 10);
	}
	return fields[10] + fields[11] < START_TICKS;
}

/* next_child returns the next process ID of a list of children, or 0 at the end. */
static pid_t next_child(const char **list) {
	*list += strspn(*list, " ");
	long child = number(list, 10);
	return child > 0 && **list == ' ' ? (pid_t)child : 0; /* the last one may be truncated */
}

static const char *children_of(pid_t process, char to[static sizeof children]) {
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
	read_file(path, to, sizeof children);
	return to;
}

/* starts reports whether a child, or its own child, is starting. A shell defers a SIGINT of that
 * moment until its command has ended, and the fork for the command loses it. */
static bool starts(pid_t child) {
	char own[sizeof children];
	if (begins(child))
		return true;
	const char *at = children_of(child, own);
	for (pid_t its; (its = next_child(&at)) > 0;)
		if (begins(its))
			return true;
	return false;
}

/* strike sends SIGINT to a child and its children, as a terminal does, because a shell waits for its
 * command. */
static void strike(pid_t child) {
	char own[sizeof children];
	if (getpgid(child) == child) {
		kill(-child, SIGINT);
		return;
	}
	const char *at = children_of(child, own);
	kill(child, SIGINT);
	for (pid_t its; (its = next_child(&at)) > 0;)
		if (getpgid(its) == getpid())
			kill(its, SIGINT);
}

/* let_start waits until no child is starting and R in system() waits for its child, since this thread
 * may be faster than R. */
static void let_start(void) {
	char now[sizeof children];
	long awaited;
	for (int i = 0; i < MOMENTS && in_system() && !sits_in(SYS_wait4, &awaited); i++)
		wait_moment();
	for (int i = 0; i < MOMENTS; i++) {
		bool any = false;
		read_file(main_children, now, sizeof now);
		const char *at = now;
		for (pid_t child; !any && (child = next_child(&at)) > 0;)
			any = starts(child);
		if (!any)
			return;
		wait_moment();
	}
}

/* list_children records the children that get SIGINT with the process group and do not ignore it. */
static void list_children(void) {
	char now[sizeof children];
	read_file(main_children, now, sizeof now);
	const char *at = now;
	size_t n = 0;
	for (pid_t child; (child = next_child(&at)) > 0;)
		if (getpgid(child) == getpgrp() && !starts(child))
			n += (size_t)sprintf(children + n, "%d ", (int)child); /* no more than in the kernel's list */
	children[n] = 0;
}

/* signal_child sends SIGINT to a child that missed it, and returns false while the child is starting. A
 * live child that SIGINT would have killed has missed it: it was still a fork of R, whose handler
 * took it, and has become a program since. */
static bool signal_child(pid_t child) {
	char all[sizeof children + 1], one[24];
	snprintf(all, sizeof all, " %s", children);
	snprintf(one, sizeof one, " %d ", (int)child);
	bool had = strstr(all, one) != NULL;
	if (had && catches(child))
		return true;
	if (starts(child))
		return false;
	strike(child);
	if (!had && strlen(children) + strlen(one) <= sizeof children)
		strcat(children, one + 1);
	return true;
}

/* signal_awaited interrupts the child that R waits for, if the SIGINT for the group did not reach it:
 * children of pipe() have their own group. */
static bool signal_awaited(void) {
	long child;
	return !sits_in(SYS_wait4, &child) || child <= 0 || getpgrp() != getpid() || signal_child((pid_t)child);
}

/* signal_rest interrupts children of the group that have started since. */
static void signal_rest(void) {
	char now[sizeof children];
	if (getpgrp() != getpid() || read_file(main_children, now, sizeof now) == 0)
		return;
	const char *at = now;
	for (pid_t child; (child = next_child(&at)) > 0;)
		if (getpgid(child) == getpid())
			signal_child(child);
}

/* If a child of system() catches SIGINT and ends normally, it has handled the interrupt for the turn, as
 * in R at a terminal. If it dies of SIGINT, or was ending already, the turn ends with it. Only the
 * caller of wait() learns which, and that is the C library. So the main thread waits here first, in
 * a signal handler. A shell dies of SIGINT after its command, even if the command handles it, and
 * the command's status is unknown: a command that catches SIGINT counts as one that handles it.
 * A shell that becomes its last command loses a SIGINT of that moment, so a child with a new name has
 * not handled it. */
enum { MAX_DEPTH = 8, NAME = 32 };
static pid_t handler;           /* the child */
static char handler_name[NAME]; /* when it caught SIGINT */
static char handler_comm[64];   /* path of the file with its name */
static bool by_command;         /* it only waits for a command that catches SIGINT */
static atomic_bool struck;      /* SIGINT is being sent to it */
static atomic_bool attends;     /* the main thread waits for its end */
static atomic_bool attended;    /* and is here, or was */

static void attend_end(int sig) {
	(void)sig;
	int saved = errno;
	siginfo_t end = {0};
	remember(); /* R may have come to system() since interrupt_raise looked */
	atomic_store(&attends, in_system());
	atomic_store(&attended, true);
	while (atomic_load(&attends) && waitid(P_PID, (id_t)handler, &end, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
	}
	bool exited = end.si_code == CLD_EXITED;
	bool died = end.si_status == (exited ? 128 + SIGINT : SIGINT); /* the first is the convention of shells and many programs */
	char name[NAME];
	read_file(handler_comm, name, sizeof name);
	if (atomic_load(&struck) && strcmp(name, handler_name) == 0 && (died ? by_command : exited))
		R_interrupts_pending = 0;
	errno = saved;
}

/* command_catches reports whether a process without children, below this one, catches SIGINT. Processes
 * with children only wait. A process that is starting may still be a fork of the shell, and loses it. */
static bool command_catches(pid_t process, int depth) {
	char own[sizeof children];
	const char *at = children_of(process, own);
	bool any = false;
	for (pid_t its; depth < MAX_DEPTH && (its = next_child(&at)) > 0; any = true)
		if (command_catches(its, depth + 1))
			return true;
	return !any && depth > 0 && !begins(process) && catches(process);
}

/* let_child_handle is called before a child of system() gets SIGINT. It returns whether the exit status
 * of the child will decide about the interrupt. */
static bool let_child_handle(void) {
	long child;
	if (!in_system() || !sits_in(SYS_wait4, &child) || child <= 0)
		return false;
	snprintf(handler_comm, sizeof handler_comm, "/proc/%d/comm", (int)child);
	read_file(handler_comm, handler_name, sizeof handler_name);
	if (!catches((pid_t)child))
		return false;
	struct sigaction ours = {.sa_handler = attend_end, .sa_flags = SA_RESTART}, before;
	handler = (pid_t)child;
	by_command = command_catches(handler, 0);
	atomic_store(&struck, false);
	atomic_store(&attended, false);
	sigaction(SIGURG, &ours, &before);
	pthread_kill(main_thread, SIGURG);
	for (int i = 0; i < MOMENTS && !atomic_load(&attended); i++)
		wait_moment();
	sigaction(SIGURG, &before, NULL);
	return atomic_load(&attended) && atomic_load(&attends);
}

/* begin_strike is called just before SIGINT is sent. A child that has ended by then has not handled it. */
static void begin_strike(void) {
	siginfo_t end = {0};
	if (waitid(P_PID, (id_t)handler, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == 0)
		atomic_store(&struck, true);
}

/* wake_reader ends a read() of the main thread with EINTR. */
static void wake_reader(void) {
	if (!is_reading())
		return;
	struct sigaction ours = {.sa_handler = nothing}, before; /* no SA_RESTART */
	sigaction(SIGURG, &ours, &before);
	pthread_kill(main_thread, SIGURG);
	struct timespec moment = {0, 200000};
	nanosleep(&moment, NULL);
	sigaction(SIGURG, &before, NULL);
}

/* end_read lets the next SIGINT end a read() of the main thread, so that the thread does not seem to
 * read after the acknowledgement. R's handler sets SA_RESTART again. */
static void end_read(void) {
	struct sigaction now;
	if (!is_reading() || sigaction(SIGINT, NULL, &now) != 0 || !(now.sa_flags & SA_RESTART))
		return;
	now.sa_flags &= ~SA_RESTART;
	sigaction(SIGINT, &now, NULL);
}
#else
static void wake_reader(void) {}
static void end_read(void) {}
static bool signal_awaited(void) { return true; }
static void signal_rest(void) {}
static void let_start(void) {}
static void list_children(void) {}
static bool let_child_handle(void) { return false; }
static void begin_strike(void) {}
#endif

static void signal_main(void) {
	end_read();
	pthread_kill(main_thread, SIGINT);
}

static atomic_bool group_signaled;

/* signal_group runs on the main thread. Before it returns, R can neither start a child of system() nor
 * come back from one. So the interrupt is recorded before the child can die of SIGINT. */
static void signal_group(int sig) {
	(void)sig;
	int saved = errno;
	if (!atomic_exchange(&group_signaled, true)) { /* first, because R's handler may jump */
		remember();
		kill(0, SIGINT);
	}
	errno = saved;
}

/* signal_group_from_main lets the main thread signal the group, or does so itself when that
 * thread takes no signal. A system call of the main thread ends or is restarted as with SIGINT. */
static void signal_group_from_main(void) {
	struct sigaction now, before, ours = {.sa_handler = signal_group};
	if (sigaction(SIGINT, NULL, &now) == 0)
		ours.sa_flags = now.sa_handler == SIG_IGN ? SA_RESTART : now.sa_flags & SA_RESTART;
	atomic_store(&group_signaled, false);
	sigaction(SIGURG, &ours, &before);
	pthread_kill(main_thread, SIGURG);
	for (int i = 0; i < MOMENTS && !atomic_load(&group_signaled); i++)
		wait_moment();
	if (!atomic_exchange(&group_signaled, true)) {
		kill(0, SIGINT);
		remember();
	}
	sigaction(SIGURG, &before, NULL);
}

/* signal_all interrupts R and its children. recorded says that the interrupt is not lost if SIGINT ends
 * the child for which R waits. */
static void signal_all(bool recorded) {
	list_children(); /* before the signal, so that a child may get two but never none */
	end_read();
	if (recorded)
		begin_strike();
	if (getpgrp() == getpid() && recorded) {
		kill(0, SIGINT);
	} else if (getpgrp() == getpid()) {
		signal_group_from_main();
	} else {
		pthread_kill(main_thread, SIGINT);
		if (!recorded)
			remember();
	}
	spared = false;
}

void interrupt_install(void) {
	if (sigaction(SIGINT, NULL, &regular) == 0)
		r_itself = object_of(regular.sa_handler);
	ends_wait();
	others_events = R_PolledEvents;
	R_PolledEvents = events;
	snprintf(main_state, sizeof main_state, "/proc/self/task/%d/syscall", (int)getpid());
	snprintf(main_children, sizeof main_children, "/proc/self/task/%d/children", (int)getpid());
	lists = access(main_children, R_OK) == 0;
	harden();
}

/* interrupt_raise acts like Ctrl-C at a terminal: R and its children get SIGINT. With force, R first
 * gets time to notice the interrupt without SIGINT, which would call handlers. */
void interrupt_raise(bool force) {
	harden();
	chases = CHASE_FOR / CHASE_EVERY;
	spared = insists = force;
	remember(); /* before the child has ended and R continues */
	if (force) {
		atomic_store(&forced, true);
		remember();
		return;
	}
	let_start();
	signal_all(let_child_handle());
}

/* interrupt_chase repeats the last interrupt while it has no effect. It returns the
 * milliseconds until it must be called again; -1: never. */
int interrupt_chase(void) {
	if (chases == 0)
		return -1;
	if (chases-- == CHASE_FOR / CHASE_EVERY)
		return 1; /* R gets a moment */
	if (!R_interrupts_pending && !atomic_load(&forced)) {
		bool lacks = !in_system() && !signal_awaited(); /* R closes a pipe */
		if (!lacks && chases < (CHASE_FOR - CHASE_DOUBT) / CHASE_EVERY)
			chases = 0; /* R has taken it */
		return chases > 0 ? CHASE_EVERY : -1;
	}
	bool again = chases % (CHASE_AGAIN / CHASE_EVERY) == 0; /* even if R may have taken the last one */
	if (spared || (again && (insists || !lists)))
		signal_all(true);
	else if (again)
		signal_main();
	else
		signal_rest(), wake_reader(), signal_awaited();
	return CHASE_EVERY;
}

bool interrupt_pending(void) { return R_interrupts_pending; }
bool interrupt_waits(void) { return R_interrupts_pending || atomic_load(&forced); }

void interrupt_again(bool force) {
	if (force)
		atomic_store(&forced, true);
	else
		R_interrupts_pending = 1;
}

void interrupt_discard(void) {
	sigset_t none;
	sigpending(&none); /* any system call: a pending signal is delivered on return */
	atomic_store(&forced, false);
	R_interrupts_pending = 0;
}

/* R checks for interrupts only now and then. After an interrupted wait that is too late: R would take
 * an interrupted read for the end of the file and a child's death for its result, and continue. */
void interrupt_due(void) {
	if (R_interrupts_pending)
		R_CheckUserInterrupt();
}
#endif
