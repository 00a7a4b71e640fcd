/* Interrupts. R takes SIGINT on its main thread, in its own way; here it is sent. */
#include "shim.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <ucontext.h>
#endif

static atomic_bool forced;
static void (*others_events)(void);

/* events is called by R wherever it looks for interrupts. An interrupt of level 2 jumps
 * from there: no handler of user code is asked. */
static void events(void) {
	if (others_events != NULL)
		others_events();
	if (!forked && interrupt_forced())
		Rf_jump_to_toplevel();
}

bool interrupt_forced(void) { return atomic_exchange(&forced, false); }

#ifdef __linux__
/* SIGINT must be taken by the main thread: R's handler jumps. The kernel gives a second
 * one that comes close behind to any thread that takes it, those of OpenBLAS for example,
 * which ends the process. So it is blocked in all others, by a signal that each of them
 * handles itself. Threads come later, too: this is done before each SIGINT. */
static atomic_int handled;
static pid_t hardened[256]; /* thread numbers, used in turn; only the reader thread touches it once R runs */
static size_t next_hardened;

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
		pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
		if (thread <= 0 || thread == getpid() || thread == self || is_hardened(thread))
			continue;
		if (sent == 0)
			sigaction(SIGURG, &ours, &before);
		if (syscall(SYS_tgkill, getpid(), thread, SIGURG) == 0)
			sent++;
		hardened[next_hardened++ % (sizeof hardened / sizeof *hardened)] = thread;
	}
	closedir(threads);
	if (sent == 0)
		return;
	for (int i = 0; i < 100 && atomic_load(&handled) < sent; i++) { /* 2 ms at most: one may block SIGURG */
		struct timespec moment = {0, 20000};
		nanosleep(&moment, NULL);
	}
	sigaction(SIGURG, &before, NULL);
}
#else
static void harden(void) {}
#endif

void interrupt_install(void) {
	others_events = R_PolledEvents;
	R_PolledEvents = events;
	harden();
}

/* interrupt_raise is what Ctrl-C does at a terminal: R and its children get SIGINT. */
void interrupt_raise(bool force) {
	harden();
	if (force)
		atomic_store(&forced, true);
	if (getpgrp() == getpid())
		kill(0, SIGINT);
	else
		pthread_kill(main_thread, SIGINT);
}

void interrupt_settle(void) {
	sigset_t none;
	sigpending(&none); /* any system call: a signal that was sent is taken on its way back */
	atomic_store(&forced, false);
	R_interrupts_pending = 0;
}
