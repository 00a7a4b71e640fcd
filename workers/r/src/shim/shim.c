/* The entry points that boot.R and worker.R call. For all systems. */
#include "shim.h"

#include <string.h>

static bool started;
static char files[4096], options[1024];

static void introduce(const char *version, const char *home) {
	char executable[4200];
	own_path(executable, sizeof executable, home);
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
	put_uint(f, "pid", own_number());
	put_map_head(f, "capabilities", 8);
	put_bool(f, "images", true);
	put_bool(f, "display", true);
	put_bool(f, "fence", terminal_is_fence());
	put_bool(f, "query", true);
	put_bool(f, "variables", has(Rf_findVarInFrame) && has(R_BindingIsActive));
	put_bool(f, "functions", true);
	put_bool(f, "tables", true);
	put_text(f, "interrupt", "self");
	send_frame(f, NULL, 0);
}

/* turnstone_start turns this R process into a worker. result: "", or why it cannot be one. */
EXPORT void turnstone_start(char **dir, char **version, char **home, int *keep_going, char **result) {
	static char setting[1024];
	const char *value, *why = "";
	if (started) {
		*result = "";
		return;
	}
	snprintf(files, sizeof files, "%s", *dir);
	value = setting_of("TURNSTONE_R");
	snprintf(options, sizeof options, "%s", value != NULL ? value : "");
	value = setting_of("REPL_IPC");
	snprintf(setting, sizeof setting, "%s", value != NULL ? value : "");
	if (!channel_open(setting)) {
		why = "a supervisor starts this, and sets REPL_IPC=IN,OUT,NONCE";
	} else if ((why = console_install(*keep_going != 0, strstr(options, "program=1") != NULL, *home)) == NULL) {
		started = true;
		setting_forget("TURNSTONE_R");
		setting_forget("REPL_IPC");
		main_begin();
		interrupt_install();
		code_learn_browser();
		introduce(*version, *home);
		channel_start();
		why = "";
	}
	*result = (char *)why;
}

EXPORT void turnstone_files(char **to) { *to = files; }
EXPORT void turnstone_options(char **to) { *to = options; }
EXPORT void turnstone_error(char **message) { console_error(*message); }
EXPORT void turnstone_drawing(void) { code_drawing(); }

/* turnstone_note writes messages to standard error while finish runs. */
EXPORT void turnstone_note(char **text) {
	terminal_error(*text, strlen(*text), false);
}

/* turnstone_image sends an image at this position of the output. The caller ensures that it fits a frame. */
EXPORT void turnstone_image(uint8_t *data, int *n, char **mime, char **source, int *update, char **title) {
	if (forked)
		return;
	bool named = **source != 0, titled = **title != 0;
	terminal_flush();
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

/* turnstone_display sends texts by MIME type, at most eight. The caller ensures their sizes. */
EXPORT void turnstone_display(char **types, char **texts, int *n, int *result, char **title) {
	if (forked)
		return;
	bool titled = **title != 0;
	terminal_echo(false);
	terminal_flush();
	frame *f = send_begin("display", 3 + titled, true);
	put_bool(f, "update", false);
	put_text(f, "kind", *result != 0 ? "result" : "display");
	if (titled)
		put_text_n(f, "title", *title, strlen(*title), 1024);
	put_map_head(f, "data", *n);
	for (int i = 0; i < *n; i++)
		put_bin(f, types[i], texts[i], strlen(texts[i]));
	send_frame(f, NULL, 0);
}
