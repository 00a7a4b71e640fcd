/* The way in: what boot.R and worker.R call. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

pthread_t main_thread;
volatile sig_atomic_t forked;

static char files[4096], options[1024];

static void before_fork(void) {
	if (!forked)
		fflush(stdout); /* else the child has it, too */
}

static void in_child(void) {
	if (!forked) {
		forked = 1;
		channel_forget();
	}
}

/* glibc has pthread_atfork in a static part, and this behind it; others have the former. */
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

static void introduce(const char *version, const char *home) {
	char executable[4200];
	snprintf(executable, sizeof executable, "%s/bin/R", home);
	frame *f = send_begin("worker_ready", 3, false);
	put_map_head(f, "protocol", 2);
	put_text(f, "name", "turnstone-worker");
	put_uint(f, "version", 1);
	put_map_head(f, "worker", 6);
	put_text(f, "name", "turnstone-r");
	put_text(f, "version", "1");
	put_text(f, "language", "r");
	put_text(f, "runtime_version", version);
	put_text(f, "executable", executable);
	put_uint(f, "pid", (uint64_t)getpid());
	put_map_head(f, "capabilities", 5);
	put_bool(f, "images", true);
	put_bool(f, "fence", terminal_is_fence());
	put_bool(f, "query", true);
	put_bool(f, "variables", &Rf_findVarInFrame != NULL && &R_BindingIsActive != NULL);
	put_text(f, "interrupt", "self");
	send_frame(f, NULL, 0);
}

/* turnstone_start makes this R a worker. result: "", or why it cannot be one. */
EXPORT void turnstone_start(char **dir, char **version, char **home, int *keep_going, char **result) {
	static char why[256];
	char *setting = getenv("REPL_IPC"), *given = getenv("TURNSTONE_R");
	if (main_thread != 0) {
		*result = "";
		return;
	}
	snprintf(files, sizeof files, "%s", *dir);
	snprintf(options, sizeof options, "%s", given != NULL ? given : "");
	unsetenv("TURNSTONE_R");
	if (setting == NULL || !channel_open(setting)) {
		snprintf(why, sizeof why, "a supervisor starts this, and sets REPL_IPC=IN,OUT,NONCE");
		*result = why;
		return;
	}
	unsetenv("REPL_IPC");
	main_thread = pthread_self();
	watch_forks();
	console_install(*keep_going != 0);
	interrupt_install();
	introduce(*version, *home);
	channel_start();
	*result = "";
}

EXPORT void turnstone_files(char **to) { *to = files; }
EXPORT void turnstone_options(char **to) { *to = options; }
EXPORT void turnstone_drawing(void) { code_drawing(); }

/* turnstone_note writes to standard error what is said while finish runs. */
EXPORT void turnstone_note(char **text) {
	fflush(stdout);
	terminal_error(*text, strlen(*text));
}

/* turnstone_image sends a picture, here. It must fit a frame: the caller sees to it. */
EXPORT void turnstone_image(uint8_t *data, int *n, char **mime, char **source, int *update, char **title) {
	if (forked)
		return;
	bool named = **source != 0, titled = **title != 0;
	fflush(stdout);
	frame *f = send_begin("image", 3 + named + titled, true);
	put_text(f, "mime", *mime);
	if (named)
		put_text(f, "source", *source);
	put_bool(f, "update", *update != 0);
	if (titled)
		put_text_n(f, "title", *title, strlen(*title), 1024);
	put_bin_head(f, "data", (size_t)*n);
	send_frame(f, data, (size_t)*n);
}
