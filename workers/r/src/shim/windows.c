/* The parts for Windows: two named pipes, text in frames, R's message loop, its
 * functions by name, the take-over of its console, interrupts. */
#include "shim.h"
#ifdef _WIN32

#include <stdlib.h>
#include <string.h>

static DWORD main_thread;

/* ---- R's functions and variables, looked up by name in R.dll
 *
 * Each function is a jump to the address found. So the rest of the code calls it as on Unix, and no
 * import library of any version of R is needed. */

#define NEEDED(F) \
	F(R_ProcessEvents) F(R_CheckUserInterrupt) F(R_SetParams) F(R_DefParamsEx) F(Rf_jump_to_toplevel) F(Rf_GetOption1) \
	F(Rf_install) F(STRING_ELT) F(VECTOR_ELT) F(Rf_getAttrib) F(Rf_mkString) F(Rf_mkCharLenCE) F(Rf_ScalarString) \
	F(Rf_ScalarInteger) F(Rf_lang1) F(Rf_lang3) F(Rf_protect) F(R_ParseVector) F(R_tryEvalSilent) F(R_LockBinding) F(R_unLockBinding) \
	F(Rf_unprotect) F(R_PreserveObject) F(Rf_defineVar) F(R_CHAR) F(Rf_translateCharUTF8) F(Rf_type2char) F(TYPEOF) \
	F(Rf_length) F(INTEGER) F(Rf_xlength) F(Rf_allocVector) F(SET_VECTOR_ELT) F(Rf_setAttrib) F(Rf_lang2) F(Rf_eval) \
	F(SET_STRING_ELT) F(REAL) F(LOGICAL) F(RAW) F(Rf_inherits) F(R_alloc) F(Rf_getCharCE)
#define PERHAPS(F) F(R_curErrorBuf) F(Rf_findVarInFrame) F(R_BindingIsActive) F(R_SizeFromEnv) F(Rf_addTaskCallback)

#define JUMP(name) \
	void *found_##name; \
	__asm__(".text\n.globl " #name "\n" #name ":\n\tjmp *found_" #name "(%rip)\n");
NEEDED(JUMP)
PERHAPS(JUMP)

SEXP *found_R_GlobalEnv, *found_R_BaseEnv, *found_R_NilValue, *found_R_NaString, *found_R_UnboundValue;
volatile int *found_R_interrupts_pending;
void *found_R_NoEcho;
static volatile char *user_break; /* the significant byte, of one or four */
static void **output_file, **console_file;
static uintptr_t *stack_limit;

R_API void R_ProcessEvents(void), R_SetParams(void *), R_SizeFromEnv(void *);
R_API int R_DefParamsEx(void *, int);

/* bind finds the symbols. It returns the name of the first that R lacks, or NULL. */
static const char *bind(void) {
	HMODULE r = GetModuleHandleW(L"R.dll");
	if (r == NULL)
		return "R.dll";
#define NEED(name) {#name, &found_##name, true},
#define WISH(name) {#name, &found_##name, false},
	const struct {
		const char *name;
		void *where;
		bool needed;
	} all[] = {
		NEEDED(NEED) PERHAPS(WISH)
		{"R_GlobalEnv", &found_R_GlobalEnv, true}, {"R_BaseEnv", &found_R_BaseEnv, true},
		{"R_NilValue", &found_R_NilValue, true}, {"R_NaString", &found_R_NaString, true}, {"R_interrupts_pending", &found_R_interrupts_pending, true},
		{"UserBreak", &user_break, true}, {"R_Outputfile", &output_file, true},
		{"R_Consolefile", &console_file, true}, {"R_CStackLimit", &stack_limit, true},
		{"R_NoEcho", &found_R_NoEcho, false}, {"R_UnboundValue", &found_R_UnboundValue, false},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		FARPROC found = GetProcAddress(r, all[i].name);
		if (found == NULL && all[i].needed)
			return all[i].name;
		memcpy(all[i].where, &found, sizeof found);
	}
	return NULL;
}

/* ---- the channel */

static HANDLE in = INVALID_HANDLE_VALUE, out = INVALID_HANDLE_VALUE;
static HANDLE arrived;     /* something may be read */
static HANDLE text_waits;  /* for the reader thread: the first of it */
static HANDLE interrupted; /* the supervisor's event; NULL: it has none */

bool channel_open(char *setting) {
	char *second = strchr(setting, ','), *third = second != NULL ? strchr(second + 1, ',') : NULL, name[160];
	if (third == NULL)
		return false;
	*second++ = 0, *third++ = 0;
	in = CreateFileA(setting, GENERIC_READ, 0, NULL, OPEN_EXISTING, FILE_FLAG_OVERLAPPED, NULL);
	out = CreateFileA(second, GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
	arrived = CreateEventW(NULL, TRUE, FALSE, NULL);
	text_waits = CreateEventW(NULL, FALSE, FALSE, NULL);
	snprintf(name, sizeof name, "Local\\turnstone-interrupt-%s", third);
	interrupted = OpenEventA(SYNCHRONIZE, FALSE, name);
	return in != INVALID_HANDLE_VALUE && out != INVALID_HANDLE_VALUE && arrived != NULL && text_waits != NULL;
}

size_t channel_read(void *to, size_t room) {
	OVERLAPPED o = {.hEvent = arrived};
	if (!ReadFile(in, to, room < 1 << 20 ? (DWORD)room : 1 << 20, NULL, &o) && GetLastError() != ERROR_IO_PENDING)
		return 0;
	HANDLE any[3] = {arrived, text_waits, interrupted};
	for (int wait = console_tick(true);; wait = console_tick(false)) {
		DWORD what = WaitForMultipleObjects(interrupted != NULL ? 3 : 2, any, FALSE, wait < 0 ? INFINITE : (DWORD)wait);
		if (what == WAIT_OBJECT_0)
			break;
		if (what == WAIT_OBJECT_0 + 2)
			console_interrupt();
	}
	DWORD n = 0;
	return GetOverlappedResult(in, &o, &n, TRUE) ? n : 0;
}

bool channel_write(const void *from, size_t n) {
	const char *at = from;
	for (DWORD k; n > 0; at += k, n -= k)
		if (!WriteFile(out, at, n < 1 << 20 ? (DWORD)n : 1 << 20, &k, NULL))
			return false;
	return true;
}

bool way_is_open(void) { return out != INVALID_HANDLE_VALUE; }

static DWORD WINAPI run_thread(void *run) {
	((void (*)(void))run)();
	return 0;
}

bool channel_thread(void (*run)(void)) {
	HANDLE thread = CreateThread(NULL, 0, run_thread, (void *)run, 0, NULL);
	return thread != NULL && CloseHandle(thread);
}

void channel_rest(int ms) { Sleep((DWORD)ms); }

/* ---- text: in frames, because a console redraws its output
 *
 * It is collected for a moment: R writes each number of a vector by itself. */

enum { TEXT_MOMENT = 10 }; /* ms of delay of text, at most twice that */

static char text[32 << 10]; /* these variables are guarded by sending */
static size_t texts;
static char text_kind = 'O'; /* as the bodies of markers */
static bool text_has_waited, text_begins, echo_on, echo_begins;

void text_going(void) {
	static frame f;
	if (texts == 0)
		return;
	bool special = text_kind == 'R' || text_kind == 'T';
	frame_begin(&f, "output", 2 + special + text_begins);
	put_text(&f, "stream", text_kind == 'E' || text_kind == 'T' ? "stderr" : "stdout");
	if (special)
		put_text(&f, "kind", text_kind == 'R' ? "result" : "traceback");
	if (text_begins)
		put_bool(&f, "begins", true);
	text_begins = false;
	put_bin_head(&f, "data", texts);
	frame_out(&f, text, texts);
	texts = 0;
}

static void collect(char kind, const char *at, size_t n) {
	take(&sending);
	bool begins = kind == 'R' && echo_begins;
	if (kind != text_kind || begins)
		text_going();
	text_kind = kind;
	text_begins = text_begins || begins;
	if (begins)
		echo_begins = false;
	bool first = texts == 0;
	if (first)
		text_has_waited = false;
	while (n > 0) {
		size_t k = n < sizeof text - texts ? n : sizeof text - texts;
		memcpy(text + texts, at, k);
		texts += k, at += k, n -= k;
		if (texts == sizeof text)
			text_going();
	}
	leave(&sending);
	if (first)
		SetEvent(text_waits);
}

void terminal_text(const char *at, size_t n) { collect(echo_on ? 'R' : 'O', at, n); }
void terminal_error(const char *at, size_t n, bool report) { collect(report ? 'T' : 'E', at, n); }
void terminal_waits(void) {}
void terminal_echo(bool echo) { echo_on = echo; }
void terminal_begin_echo(void) { echo_on = echo_begins = true; }

void terminal_flush(void) {
	take(&sending);
	text_going();
	leave(&sending);
}

int terminal_tick(bool fresh) {
	(void)fresh;
	take(&sending);
	if (text_has_waited)
		text_going();
	text_has_waited = texts > 0;
	int wait = text_has_waited ? TEXT_MOMENT : -1;
	leave(&sending);
	return wait;
}

bool terminal_is_fence(void) { return false; }
void terminal_marker(uint64_t mark) { (void)mark; }

int terminal_width(void) { return 0; } /* only programs on Unix have a user's own terminal */

bool terminal_hides(void) {
	static bool echoed; /* at the first call */
	DWORD mode = 0;
	HANDLE console = CreateFileW(L"CONIN$", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
	bool known = console != INVALID_HANDLE_VALUE && GetConsoleMode(console, &mode);
	if (console != INVALID_HANDLE_VALUE)
		CloseHandle(console);
	bool echoes = mode & ENABLE_ECHO_INPUT;
	echoed = echoed || (known && echoes);
	return known && echoed && !echoes && mode & ENABLE_LINE_INPUT;
}

/* ---- R's message loop */

static HANDLE wake;

void main_begin(void) {
	main_thread = GetCurrentThreadId();
	wake = CreateEventW(NULL, FALSE, FALSE, NULL);
	terminal_hides(); /* for how the console is now */
}

void main_wake(void) { SetEvent(wake); }

/* main_wait leaves interrupts to main_events. It also waits while R defers an interrupt, in
 * suspendInterrupts(). */
void main_wait(void) {
	DWORD most = *user_break ? 0 : R_interrupts_pending ? 100 : INFINITE;
	MsgWaitForMultipleObjectsEx(1, &wake, most, QS_ALLINPUT, MWMO_INPUTAVAILABLE);
}

bool main_events(void) {
	R_ProcessEvents(); /* windows, the help server, Tcl, timers of packages */
	interrupt_due();
	return true;
}

/* ---- the process */

/* Each C library has a copy of the environment. This reads the system's, which all of them write to.
 * boot.R removes from R's copy what is removed here. */
const char *setting_of(const char *name) {
	static char value[1024];
	DWORD n = GetEnvironmentVariableA(name, value, sizeof value);
	return n > 0 && n < sizeof value ? value : NULL;
}

void setting_forget(const char *name) { SetEnvironmentVariableA(name, NULL); }

void own_path(char *to, size_t room, const char *home) {
	WCHAR wide[1024];
	(void)home;
	if (GetModuleFileNameW(NULL, wide, sizeof wide / sizeof *wide) == 0 || WideCharToMultiByte(CP_UTF8, 0, wide, -1, to, (int)room, NULL, NULL) == 0)
		*to = 0;
}

uint64_t own_number(void) { return GetCurrentProcessId(); }

/* R ends by exit() of its own C library, while the reader thread still runs. This waits for a frame
 * that the thread is sending, and prevents any other. */
static int __cdecl at_exit(void) {
	console_end();
	take(&sending);
	out = INVALID_HANDLE_VALUE;
	leave(&sending);
	return 0;
}

static void watch_exit(void) {
	HMODULE library = GetModuleHandleW(L"ucrtbase.dll");
	FARPROC found = library != NULL ? GetProcAddress(library, "_crt_atexit") : NULL;
	int(__cdecl * with)(int(__cdecl *)(void));
	memcpy(&with, &found, sizeof found);
	if (found != NULL)
		with(at_exit);
}

/* For an end other than by exit(). */
BOOL WINAPI DllMain(HINSTANCE self, DWORD why, void *ends) {
	(void)self;
	/* All other threads have ended. If one was sending a frame, no other frame may follow. */
	if (why == DLL_PROCESS_DETACH && ends != NULL && main_thread != 0 && TryAcquireSRWLockExclusive(&sending)) {
		leave(&sending);
		console_end();
	}
	return TRUE;
}

/* ---- R's console
 *
 * R.dll lets a program that embeds it set the functions of its console. Rterm has set them
 * before; they may be set again. */

/* R's structRstart, one layout for R 4.2 to 4.5 at least: the truth values of the older
 * ones had four bytes too, and the version of the layout lies in bits that were zero. */
typedef struct {
	int quiet, no_echo, interactive, verbose, site_file, init_file, debug, restore, save;
	size_t vsize, nsize, max_vsize, max_nsize, ppsize;
	unsigned no_renviron : 16, version : 16;
	int nconnections;
	char *rhome, *home;
	int (*read)(const char *, unsigned char *, int, int);
	void (*write)(const char *, int);
	void (*callback)(void);
	void (*message)(const char *);
	int (*yes_no_cancel)(const char *);
	void (*busy)(int);
	int mode;
	void (*write_ex)(const char *, int, int);
	int embedded_utf8;
	void (*clean_up)(int, int, int);
	void (*clear)(void), (*flush)(void), (*reset)(void);
	void (*suicide)(const char *);
	unsigned char behind[256]; /* unused */
} start;

enum { START_VERSION = 1, MODE_RTERM = 1, SAVE_NOTHING = 3, UNTOUCHED = 0x5a };

static const calls *ours;

/* R asks whether to save its workspace. */
static int yes_no_cancel(const char *question) {
	char prompt[256];
	unsigned char answer[16] = "";
	snprintf(prompt, sizeof prompt, "%s [y/n/c]: ", question);
	ours->read(prompt, answer, sizeof answer, 0);
	return *answer == 'y' || *answer == 'Y' ? 1 : *answer == 'n' || *answer == 'N' ? -1 : 0;
}

/* events is called by R wherever it checks for interrupts, as on Unix. */
static void events(void) {
	if (!code_running() && interrupt_forced())
		Rf_jump_to_toplevel();
}

const char *r_take_over(const calls *c, const char *home, void (**clean_up)(int, int, int)) {
	static char why[128], rhome[4096], user[4096];
	const char *lacks = bind();
	if (lacks != NULL) {
		snprintf(why, sizeof why, "this R lacks %s: R 4.2 or newer is needed", lacks);
		return why;
	}
	start s;
	memset(&s, 0, sizeof s);
	memset(s.behind, UNTOUCHED, sizeof s.behind);
	if (R_DefParamsEx(&s, START_VERSION) != 0)
		return "this R has start parameters of another version";
	for (size_t i = 0; i < sizeof s.behind; i++)
		if (s.behind[i] != UNTOUCHED)
			return "the start parameters of this R are larger than known";
	if (s.version != START_VERSION || s.clean_up == NULL || s.suicide == NULL || s.read != NULL || s.ppsize < 10000 || s.ppsize > 500000)
		return "the start parameters of this R are not laid out as known";
	if (found_R_SizeFromEnv != NULL)
		R_SizeFromEnv(&s); /* R_MAX_VSIZE is respected */
	const char *users = setting_of("R_USER");
	snprintf(rhome, sizeof rhome, "%s", home);
	snprintf(user, sizeof user, "%s", users != NULL ? users : home);
	ours = c;
	*clean_up = s.clean_up;
	s.quiet = 1, s.interactive = 1, s.no_renviron = 1, s.restore = 0, s.save = SAVE_NOTHING;
	s.rhome = rhome, s.home = user, s.mode = MODE_RTERM;
	s.read = c->read, s.write_ex = c->write, s.message = c->message, s.busy = c->busy, s.clean_up = c->clean_up;
	s.clear = c->clear, s.flush = c->flush, s.reset = c->reset;
	s.callback = events, s.yes_no_cancel = yes_no_cancel;
	uintptr_t limit = *stack_limit; /* R has subtracted a reserve */
	R_SetParams(&s);
	*stack_limit = limit;
	watch_exit();
	*output_file = *console_file = NULL; /* while they are set, R writes there itself */
	return NULL;
}

/* ---- interrupts
 *
 * R checks a variable of its own; children get CTRL_C. Windows delivers CTRL_C to R as well, where
 * it is swallowed, or R would be interrupted twice. */

enum { CHASE_EVERY = 10, CHASE_FOR = 3000, CHASE_CHILDREN = 100 }; /* ms */

static volatile LONG forced;
static int chases; /* left; only the reader thread uses it */

static BOOL WINAPI swallow(DWORD what) { return what == CTRL_C_EVENT; }

void interrupt_install(void) {
	SetConsoleCtrlHandler(swallow, TRUE); /* the last handler runs first */
}

/* nudge ends R's wait for messages, after which R checks for interrupts. */
static void nudge(void) { PostThreadMessageW(main_thread, WM_NULL, 0, 0); }

void interrupt_raise(bool force) {
	chases = CHASE_FOR / CHASE_EVERY;
	interrupt_again(force);
	GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0);
	nudge();
}

/* A child may have been starting, or R may have been about to wait. */
int interrupt_chase(void) {
	if (chases == 0)
		return -1;
	chases--;
	if (!*user_break && !forced)
		return chases = 0, -1;
	if (chases % (CHASE_CHILDREN / CHASE_EVERY) == 0)
		GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0);
	nudge();
	return CHASE_EVERY;
}

bool interrupt_pending(void) { return *user_break || R_interrupts_pending; }
bool interrupt_waits(void) { return interrupt_pending() || forced; }

void interrupt_again(bool force) {
	if (force)
		InterlockedExchange(&forced, 1);
	else
		*user_break = 1;
}

void interrupt_discard(void) {
	forced = 0;
	*user_break = 0;
	R_interrupts_pending = 0;
}

bool interrupt_forced(void) { return InterlockedExchange(&forced, 0) != 0; }

void interrupt_due(void) {
	if (R_interrupts_pending)
		R_CheckUserInterrupt();
}

void interrupt_mend(void) {}
#endif
