/* Interrupts on Unix. R takes SIGINT on its main thread, in its own way; here it is sent. */
#include "shim.h"
#ifndef _WIN32

#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

/* R before 4.2 may leave its handler of select() installed when it jumps out of there, and
 * with the next SIGINT would jump back in, where nothing is any more. */
static struct sigaction regular; /* R's own handler, as it is but in select() */
static void *r_itself;           /* the object file that it is in */

static void *object_of(void (*function)(int)) {
	Dl_info found;
	return dladdr != NULL && dladdr((void *)function, &found) != 0 ? found.dli_fbase : NULL;
}

void interrupt_mend(void) {
	struct sigaction now;
	if (r_itself != NULL && sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != regular.sa_handler && object_of(now.sa_handler) == r_itself)
		sigaction(SIGINT, &regular, NULL);
}

/* events is called by R wherever it looks for interrupts. An interrupt of level 2 jumps
 * from there: no handler of user code is asked. Code of ours is only left by SIGINT, which
 * follows: the jump would end there. */
static void events(void) {
	if (others_events != NULL)
		others_events();
	interrupt_mend();
	if (!forked && !code_running() && interrupt_forced())
		Rf_jump_to_toplevel();
}

bool interrupt_forced(void) { return atomic_exchange(&forced, false); }

static size_t read_file(const char *path, char *to, size_t room) {
	FILE *f = *path != 0 ? fopen(path, "re") : NULL;
	size_t n = f != NULL ? fread(to, 1, room - 1, f) : 0;
	to[n] = 0;
	if (f != NULL)
		fclose(f);
	return n;
}

#ifdef __linux__
/* SIGINT must be taken by the main thread: R's handler jumps. The kernel gives a second
 * one that comes close behind to any thread that takes it, those of OpenBLAS for example,
 * which ends the process. So it is blocked in all others, by a signal that each of them
 * handles itself. Threads come later, too: this is done before each SIGINT. */
static atomic_int handled;
static pid_t hardened[256]; /* thread numbers, used in turn; only the reader thread touches it once R runs */
static size_t next_hardened;
enum { HARDEN_EVERY = 20000, HARDEN_TRIES = 2500 }; /* ns: 50 ms in all, for threads that get no processor */

/* blocks_it reports whether a thread blocks SIGINT already. */
static bool blocks_it(pid_t thread) {
	char path[64], status[4096];
	snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
	read_file(path, status, sizeof status);
	const char *mask = strstr(status, "\nSigBlk:\t");
	if (mask == NULL)
		return false;
	mask += strlen("\nSigBlk:\t") + 8; /* the lower half of its digits */
	return number(&mask, 16) >> (SIGINT - 1) & 1;
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
			sent++; /* the next time looks whether it has taken it */
	}
	closedir(threads);
	if (sent == 0)
		return;
	for (int i = 0; i < HARDEN_TRIES && atomic_load(&handled) < sent; i++) { /* one may block SIGURG */
		struct timespec moment = {0, HARDEN_EVERY};
		nanosleep(&moment, NULL);
	}
	sigaction(SIGURG, &before, NULL);
}
#else
static void harden(void) {}
#endif

/* An interrupt is not always taken when SIGINT has been sent:
 *
 *  - In system() R ignores SIGINT, from a moment before there is a child to take it,
 *    and goes on behind it, maybe to the next child.
 *  - It may be on its way to start a child, and wait for that first.
 *  - A read() of the terminal or a pipe is begun again behind R's handler.
 *  - It waits for a child that SIGINT does not reach.
 *
 * So the reader thread looks again until R has taken it, for a while. */
enum { CHASE_EVERY = 5, CHASE_FOR = 3000, CHASE_DOUBT = 100, CHASE_AGAIN = 500 }; /* ms; DOUBT: R may not have run since */

static int chases;            /* left; only the reader thread uses it, as all below */
static bool spared;           /* R itself has not had SIGINT yet */
static char children[1024];   /* that had SIGINT, as the kernel lists them */
static long awaited;          /* the child that had one of its own */
static char main_state[64];   /* paths below /proc of the main thread */
static char main_children[64];

/* remember notes an interrupt for when R is back, if SIGINT is ignored: R waits for a child
 * in system(). */
static void remember(void) {
	struct sigaction now;
	if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
		R_interrupts_pending = 1;
}

#ifdef __linux__
static void nothing(int sig) { (void)sig; }

/* sits_in reports whether the main thread sits in that system call. argument becomes its
 * first argument. */
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

/* signal_awaited interrupts the child whose end R awaits, if the SIGINT for the group did
 * not reach it: children of pipe() have a group of their own. */
static void signal_awaited(void) {
	long child;
	if (!sits_in(SYS_wait4, &child) || child <= 0 || child == awaited || getpgid((pid_t)child) != child)
		return;
	kill((pid_t)-child, SIGINT);
	awaited = child;
}

/* wake_reader ends a read() that the main thread is in, with EINTR. */
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

/* end_read lets the next SIGINT end a read() that the main thread is in, so that the thread
 * is no longer seen reading after the acknowledgement. R's handler sets SA_RESTART again by
 * itself. */
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
static void signal_awaited(void) {}
#endif

static void signal_all(void) {
	read_file(main_children, children, sizeof children); /* before the signal: a child may then get two, but never none */
	end_read();
	if (getpgrp() == getpid())
		kill(0, SIGINT);
	else
		pthread_kill(main_thread, SIGINT);
	spared = false;
	awaited = 0;
}

void interrupt_install(void) {
	if (sigaction(SIGINT, NULL, &regular) == 0)
		r_itself = object_of(regular.sa_handler);
	ends_wait();
	others_events = R_PolledEvents;
	R_PolledEvents = events;
	snprintf(main_state, sizeof main_state, "/proc/self/task/%d/syscall", (int)getpid());
	snprintf(main_children, sizeof main_children, "/proc/self/task/%d/children", (int)getpid());
	harden();
}

/* interrupt_raise does the same as Ctrl-C at a terminal: R and its children get SIGINT. With
 * force, R gets time to notice the interrupt without it, because SIGINT would call handlers. */
void interrupt_raise(bool force) {
	harden();
	chases = CHASE_FOR / CHASE_EVERY;
	spared = force;
	remember(); /* before the child has ended and R goes on */
	if (force)
		atomic_store(&forced, true);
	else
		signal_all();
	remember();
}

/* interrupt_chase repeats the last interrupt while it has no effect. It returns the
 * milliseconds until it must be called again; -1: never. */
int interrupt_chase(void) {
	if (chases == 0)
		return -1;
	if (chases-- == CHASE_FOR / CHASE_EVERY)
		return 1; /* R gets a moment */
	if (!R_interrupts_pending && !atomic_load(&forced)) {
		if (chases < (CHASE_FOR - CHASE_DOUBT) / CHASE_EVERY)
			chases = 0; /* it was taken */
		return chases > 0 ? CHASE_EVERY : -1;
	}
	char now[sizeof children];
	bool again = chases % (CHASE_AGAIN / CHASE_EVERY) == 0; /* even if R may have taken the last one */
	if (spared || again || (read_file(main_children, now, sizeof now) > 0 && strcmp(now, children) != 0))
		signal_all();
	else
		wake_reader(), signal_awaited();
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
	sigpending(&none); /* any system call: a signal that was sent is taken on its way back */
	atomic_store(&forced, false);
	R_interrupts_pending = 0;
}

/* R looks for interrupts now and then. Where a wait of R's was ended that is too late: it
 * takes a read that was ended for the end of the file, a child's death for its result, and
 * goes on with them. */
void interrupt_due(void) {
	if (R_interrupts_pending)
		R_CheckUserInterrupt();
}
#endif
