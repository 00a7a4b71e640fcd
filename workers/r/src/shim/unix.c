/* The parts for Unix: two pipes, R's event loop, R's console, forks. */
#include "shim.h"
#ifndef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

R_API int (*ptr_R_ReadConsole)(const char *, unsigned char *, int, int);
R_API void (*ptr_R_WriteConsole)(const char *, int), (*ptr_R_WriteConsoleEx)(const char *, int, int);
R_API void (*ptr_R_ResetConsole)(void), (*ptr_R_FlushConsole)(void), (*ptr_R_ClearerrConsole)(void);
R_API void (*ptr_R_Busy)(int), (*ptr_R_CleanUp)(int, int, int), (*ptr_R_ShowMessage)(const char *);
R_API int (*ptr_R_ShowFiles)(int, const char **, const char **, const char *, int, const char *);
R_API FILE *R_Outputfile, *R_Consolefile;
R_API void *R_InputHandlers;
R_API int R_wait_usec, Rg_wait_usec;
R_API void *addInputHandler(void *, int, void (*)(void *), int);
R_API fd_set *R_checkActivity(int, int);
R_API void R_runHandlers(void *, fd_set *);

/* ---- the channel */

static int in = -1, out = -1;

bool channel_open(char *setting) {
	const char *at = setting;
	in = (int)number(&at, 10);
	if (*at++ != ',')
		return false;
	out = (int)number(&at, 10);
	if (*at++ != ',' || fcntl(in, F_GETFD) < 0 || fcntl(out, F_GETFD) < 0)
		return false;
	in = move_high(in);
	out = move_high(out);
	terminal_open(at);
	return true;
}

size_t channel_read(void *to, size_t room) {
	struct pollfd input = {in, POLLIN, 0};
	ssize_t n;
	do {
		for (int wait = console_tick(true); poll(&input, 1, wait) == 0;)
			wait = console_tick(false);
		n = read(in, to, room);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? (size_t)n : 0;
}

bool channel_write(const void *from, size_t n) { return write_all(out, from, n); }
bool way_is_open(void) { return out >= 0; }

/* R's handlers of SIGUSR1 and SIGUSR2 end R, which takes our locks. If R's thread holds one already,
 * that would be a deadlock, so the signal is delayed. */
static volatile sig_atomic_t held, waiting; /* locks of R's thread; the signal that waits for them */
static struct sigaction save_and_end, end_only;

static void end_by(int sig) {
	if (held > 0)
		waiting = sig;
	else
		(sig == SIGUSR1 ? &save_and_end : &end_only)->sa_handler(sig);
}

static void let_wait(int sig, struct sigaction *of) {
	if (sigaction(sig, NULL, of) != 0 || of->sa_flags & SA_SIGINFO || of->sa_handler == SIG_DFL || of->sa_handler == SIG_IGN)
		return;
	struct sigaction ours = *of;
	ours.sa_handler = end_by;
	sigaction(sig, &ours, NULL);
}

void ends_wait(void) {
	let_wait(SIGUSR1, &save_and_end);
	let_wait(SIGUSR2, &end_only);
}

void take(lock *l) {
	if (pthread_equal(pthread_self(), main_thread))
		held++;
	pthread_mutex_lock(l);
}

void leave(lock *l) {
	pthread_mutex_unlock(l);
	if (!pthread_equal(pthread_self(), main_thread) || --held > 0 || waiting == 0)
		return;
	int sig = waiting;
	waiting = 0;
	raise(sig);
}

static void *run_thread(void *run) {
	((void (*)(void))run)();
	return NULL;
}

bool channel_thread(void (*run)(void)) {
	pthread_t thread;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread's mask: R expects signals on its own */
	bool ok = pthread_create(&thread, NULL, run_thread, (void *)run) == 0;
	if (ok)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ok;
}

void channel_rest(int ms) { poll(NULL, 0, ms); }

/* ---- forks */

pthread_t main_thread;
volatile sig_atomic_t forked;

static void before_fork(void) {
	if (!forked)
		fflush(stdout); /* otherwise the child would print it, too */
}

static void in_child(void) {
	if (!forked) {
		forked = 1;
		close(in);
		close(out);
		in = out = -1;
	}
}

/* glibc has pthread_atfork only in a static part, which calls this; other libraries have pthread_atfork. */
R_API int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
R_API int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));

static void watch_forks(void) {
#ifdef __linux__
	if (__register_atfork != NULL) {
		__register_atfork(before_fork, NULL, in_child, NULL);
		return;
	}
#endif
	pthread_atfork(before_fork, NULL, in_child);
}

/* ---- images */

R_API void Rf_killDevice(int);

enum { MAX_DESCRIPTOR = 1024, MAX_PATH_BYTES = 4096, MAX_WRITING = 60 /* s */ };
static bool develops; /* this is a child that writes an image */

/* path_of returns the path of an open file. It avoids stat(), which older C libraries have only in a
 * static part. */
static bool path_of(int fd, char *to) {
#ifdef __linux__
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, to, MAX_PATH_BYTES - 1);
	to[n > 0 ? n : 0] = 0;
	return n > 0;
#else
	return fcntl(fd, F_GETPATH, to) == 0;
#endif
}

/* descriptor_of returns the descriptor of an open file, or -1. */
static int descriptor_of(const char *path) {
	char file[MAX_PATH_BYTES], other[MAX_PATH_BYTES];
	int own = open(path, O_RDONLY | O_CLOEXEC), found = -1;
	if (own >= 0 && path_of(own, file))
		for (int fd = 0; fd < MAX_DESCRIPTOR && found < 0; fd++)
			if (fd != own && path_of(fd, other) && strcmp(file, other) == 0)
				found = fd;
	if (own >= 0)
		close(own);
	return found;
}

/* turnstone_develop writes the open page of a device, whose file is page, as if the device were closed
 * now. A forked child closes it, with another file behind the descriptor. So nothing is drawn
 * again, which could take long and advance the user's random numbers. */
EXPORT void turnstone_develop(int *number, char **page, char **image, int *done) {
	int status, fd = forked || !has(Rf_killDevice) ? -1 : descriptor_of(*page);
	*done = 0;
	if (fd < 0)
		return;
	/* An interrupt is not for the child. It would jump back into R code there, which may take a lock
	 * that the reader thread had at the fork. */
	sigset_t interrupt, before;
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	pthread_sigmask(SIG_BLOCK, &interrupt, &before);
	pid_t child = fork();
	if (child == 0) {
		develops = true;
		signal(SIGALRM, SIG_DFL);
		alarm(MAX_WRITING);
		int to = open(*image, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (to < 0 || dup2(to, fd) < 0)
			_exit(1);
		Rf_killDevice(*number - 1);
		_exit(0);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return;
	*done = child > 0 && status == 0;
}

/* ends_here ends a child that writes an image if R prints a message or returns to the top level. */
void ends_here(void) {
	if (develops)
		_exit(1);
}

/* ---- R's event loop */

static int wake[2] = {-1, -1};
static fd_set *active;

void main_wake(void) {
	if (write(wake[1], "", 1) < 0 && errno != EAGAIN) { /* a full pipe wakes it, too */
	}
}

static void awake(void *unused) {
	char some[64];
	(void)unused;
	while (!forked && read(wake[0], some, sizeof some) == sizeof some) {
	}
}

void main_begin(void) {
	main_thread = pthread_self();
	watch_forks();
	if (pipe(wake) != 0)
		return;
	for (int i = 0; i < 2; i++) {
		wake[i] = move_high(wake[i]);
		fcntl(wake[i], F_SETFL, O_NONBLOCK);
	}
	addInputHandler(R_InputHandlers, wake[0], awake, 77);
}

void main_wait(void) {
	int timeout = R_wait_usec > 0 ? R_wait_usec : -1;
	if (&Rg_wait_usec != NULL && Rg_wait_usec > 0 && (timeout < 0 || Rg_wait_usec < timeout))
		timeout = Rg_wait_usec;
	active = R_checkActivity(timeout, 1);
}

bool main_events(void) {
	R_runHandlers(R_InputHandlers, active);
	return active != NULL;
}

/* ---- the process */

const char *setting_of(const char *name) { return getenv(name); }
void setting_forget(const char *name) { unsetenv(name); }
void own_path(char *to, size_t room, const char *home) { snprintf(to, room, "%s/bin/R", home); }
uint64_t own_number(void) { return (uint64_t)getpid(); }

/* ---- R's console */

/* show_line prints a line without overstrikes: help pages for terminals underline and embolden an X
 * by "_\bX" and "X\bX". */
static void show_line(char *line, size_t n) {
	size_t end = 0;
	for (size_t i = 0; i < n; i++) {
		if (line[i] != '\b') {
			line[end++] = line[i];
			continue;
		}
		while (end > 0 && (line[--end] & 0xc0) == 0x80) {
		}
	}
	fwrite(line, 1, end, stdout);
}

static int show_files(int n, const char **files, const char **headers, const char *title, int remove, const char *pager) {
	(void)title;
	(void)pager;
	char *line = NULL;
	size_t room = 0;
	for (int i = 0; i < n; i++) {
		if (headers[i] != NULL && *headers[i] != 0)
			printf("%s\n\n", headers[i]);
		FILE *file = fopen(files[i], "re");
		if (file == NULL) {
			printf("%s: %s\n", files[i], strerror(errno));
			continue;
		}
		for (ssize_t k; (k = getline(&line, &room, file)) > 0;)
			show_line(line, (size_t)k);
		fclose(file);
		if (remove & 0xff) /* R's truth value */
			unlink(files[i]);
	}
	free(line);
	fputc('\n', stdout);
	terminal_flush();
	return 0;
}

static void at_exit(void *unused) {
	(void)unused;
	console_end();
}

extern int __cxa_atexit(void (*)(void *), void *, void *);

const char *r_take_over(const calls *c, const char *home, void (**clean_up)(int, int, int)) {
	(void)home;
	/* Line buffered, as libc has it for a terminal, but with room for long lines. */
	static char room[64 << 10];
	setvbuf(stdout, room, _IOLBF, sizeof room);
	R_Outputfile = R_Consolefile = NULL; /* while they are set, R writes there itself */
	ptr_R_WriteConsole = NULL;
	ptr_R_WriteConsoleEx = c->write;
	ptr_R_ReadConsole = c->read;
	ptr_R_ResetConsole = c->reset;
	ptr_R_FlushConsole = c->flush;
	ptr_R_ClearerrConsole = c->clear;
	ptr_R_Busy = c->busy;
	ptr_R_ShowMessage = c->message;
	ptr_R_ShowFiles = show_files;
	*clean_up = ptr_R_CleanUp;
	ptr_R_CleanUp = c->clean_up;
	__cxa_atexit(at_exit, NULL, NULL);
	return NULL;
}
#endif
