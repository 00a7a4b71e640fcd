/* The part of the worker inside R: a shared library that R loads. It speaks the worker protocol
 * (docs/worker-protocol.md) instead of running R's console.
 *
 * One thread is added to R's own:
 *
 *	thread   does                                         never
 *	main     runs R, asks for input, sends frames         takes state.lock while it waits
 *	reader   takes frames off the channel, interrupts,    calls R, takes a signal
 *	         writes out unfinished lines
 *
 * An interrupt makes R jump out of the wait for input. So the waiting code must hold no
 * lock and own no memory.
 *
 * No header of R is used, and every symbol of R is weak or, on Windows, looked up by name. So one
 * binary serves every R from 4.0 on, whether libR is shared or not. R's boolean is one byte or
 * four, depending on the version, so it is never passed or read whole.
 *
 * The first line of each file says whether it is for all systems. All files are compiled
 * everywhere; those of one system are empty on the other.
 */
#ifndef TURNSTONE_SHIM_H
#define TURNSTONE_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <pthread.h>
#include <signal.h>
#include <sys/select.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
typedef SRWLOCK lock;
#define LOCK SRWLOCK_INIT
#define take AcquireSRWLockExclusive
#define leave ReleaseSRWLockExclusive
#else
#define EXPORT __attribute__((visibility("default")))
typedef pthread_mutex_t lock;
#define LOCK PTHREAD_MUTEX_INITIALIZER
void take(lock *l);
void leave(lock *l);
#endif

#define MAX_FRAME (64u << 20)
#define MAX_OUTPUT (64u << 10) /* bytes in one output frame */
#define MAX_TEXT (64u << 10)   /* bytes of a text in a frame, unless it may have any length */
#define MAX_MATCHES 200
#define MAX_VARIABLES 200
#define MAX_BRIEF 256 /* bytes of each text of a variable */

typedef struct SEXPREC *SEXP; /* a value of R */

/* ---- codec.c: MessagePack */

typedef struct {
	const uint8_t *at;
	size_t n;
} bytes;

typedef enum { TURN_START, TURN_INPUT, INTERRUPT, QUERY, SHUTDOWN, FUNCTIONS, CALL_RESULT } message_type;

typedef struct {
	message_type type;
	uint64_t turn, wait, seq, level, id, cursor;
	bytes input, text, value;
	enum { COMPLETE, PARSE, VARIABLES, INSPECT, TABLE } kind; /* of a query */
	bool eof, more, failed, silent;
	bool cell; /* the input is a cell of a notebook */
} message;

/* decode reads a frame's payload. It returns an error text, or NULL. The pointers in the
 * message point into the payload. */
const char *decode(bytes payload, message *m);

/* A frame under construction. */
typedef struct {
	uint8_t *at;
	size_t n, room;
	bool failed; /* no memory */
	bool placed; /* it has a marker in the terminal */
} frame;

void frame_begin(frame *f, const char *type, int fields);
void put_key(frame *f, const char *key);
void put_uint(frame *f, const char *key, uint64_t v);
void put_int(frame *f, const char *key, int64_t v);
void put_bool(frame *f, const char *key, bool v);
void put_text(frame *f, const char *key, const char *text); /* invalid UTF-8 becomes '?' */
void put_text_n(frame *f, const char *key, const char *text, size_t n, size_t bound);
void put_bin_head(frame *f, const char *key, size_t n); /* the bytes follow the frame */
void put_bin(frame *f, const char *key, const void *from, size_t n);
void put_map_head(frame *f, const char *key, int fields);
void put_array_head(frame *f, const char *key, int n);
void put_element(frame *f, const char *text); /* of an array */
void put_map(frame *f, int fields);           /* likewise */
size_t utf8_length(const uint8_t *at, size_t n); /* of the character at at; 0: invalid */
long number(const char **at, int base); /* advances past the number; strtol() would bind to the newest C libraries */

/* ---- channel.c: frames in both directions, and the reader thread */

void channel_start(void);

/* send_begin and send_frame enclose the fields of an outgoing frame, of which there is one at a time.
 * A placed frame gets a marker, and one more field than given. body may be NULL; otherwise it belongs
 * to the last field. For any thread. */
frame *send_begin(const char *type, int fields, bool placed);
void send_frame(frame *f, const void *body, size_t n);
void frame_out(frame *f, const void *body, size_t n); /* likewise, with the lock */
extern lock sending; /* guards all outgoing frames */

/* ---- unix.c, windows.c: the parts that differ by system */

bool channel_open(char *setting);                /* setting: REPL_IPC, which is overwritten */
size_t channel_read(void *to, size_t room);      /* calls console_tick while it waits; 0: closed */
bool channel_write(const void *from, size_t n);
bool way_is_open(void);
bool channel_thread(void (*run)(void));          /* takes no signal */
void channel_rest(int ms);
void main_begin(void);                       /* this is the main thread, and REPL_IPC is taken */
void main_wake(void);                        /* ends main_wait */
void main_wait(void);                        /* for main_wake, or for one of R's events; may jump */
bool main_events(void);                      /* makes R serve them; false: there were none; may jump */
const char *setting_of(const char *name);    /* an environment variable, valid until the next call; NULL: not set */
void setting_forget(const char *name);
void own_path(char *to, size_t room, const char *home); /* of the program that was started as R */
uint64_t own_number(void);                   /* the process ID */

/* The functions that R calls instead of its console. */
typedef struct {
	int (*read)(const char *, unsigned char *, int, int);
	void (*write)(const char *, int, int);
	void (*message)(const char *), (*busy)(int), (*clean_up)(int, int, int);
	void (*flush)(void), (*clear)(void), (*reset)(void);
} calls;

/* r_take_over makes R call these functions, and console_end() at its end. clean_up is set to
 * R's own function. It returns an error text, or NULL. */
const char *r_take_over(const calls *c, const char *home, void (**clean_up)(int, int, int));

/* ---- terminal.c, windows.c: text and markers */

bool terminal_is_fence(void);
int terminal_width(void);  /* in columns, of a user's own terminal; otherwise 0 */
bool terminal_hides(void); /* typed text is not shown: the echo is switched off */
void terminal_marker(uint64_t mark);
void terminal_text(const char *text, size_t n);  /* standard output */
void terminal_error(const char *text, size_t n, bool report); /* standard error; report: of the error that ends the turn */
void terminal_waits(void);
void terminal_echo(bool echo); /* whether standard output from here on echoes a value */
void terminal_begin_echo(void); /* the next standard output begins the echo of a value */
void terminal_flush(void);
bool terminal_written(void); /* R has written text since the last marker; for the main thread */
int terminal_tick(bool fresh); /* writes delayed text when it is due; like console_tick */
void text_going(void);         /* for send_begin, with its lock: writes delayed text first */

/* ---- console.c: the console that R calls */

const char *console_install(bool keep_going, bool program, const char *home); /* keep_going: a turn goes on after an error; program: an input is a whole program */
void console_end(void);              /* the process ends */
void console_learn_browser(bool on); /* the next prompt is the browser's, to be recognized later */
void console_take(const message *m); /* for the reader thread */
void console_interrupt(void);        /* likewise: of any turn */
void console_gone(const char *why);  /* likewise; why is NULL when the channel was closed */
int console_tick(bool fresh);        /* likewise: in how many ms to call it again; -1: not before the next frame */
bool console_ending(void);           /* the worker comes to an end */
uint64_t console_turn(void);         /* the active one, or 0 */
void console_value(SEXP value);      /* R has evaluated an expression, and echoed its value */
void console_error(const char *message); /* receives an uncaught error */
void console_went_on(bool again);    /* R has evaluated an expression and continued; again: it will report the next one, too */
void console_answered(void);         /* an interrupt of the query would be stale */

/* ---- call.c: functions of the host */

void call_result(const message *m);    /* for the reader thread */
void call_functions(const message *m); /* likewise */
bool call_list_changed(void);          /* the list of functions has changed since the last call */

/* ---- value.c: values of R as encoded values */

extern bool value_in_utf8;
SEXP value_read(bytes document, const char **wrong);
bytes value_write(SEXP x, const char **kind, const char **words);
SEXP value_texts(const char *a, const char *b); /* one, or two */

/* ---- interrupt.c, windows.c */

void interrupt_install(void);
void interrupt_raise(bool force); /* for the reader thread, with the lock, as interrupt_chase */
int interrupt_chase(void);
bool interrupt_waits(void);       /* the last interrupt has not been taken */
bool interrupt_pending(void);     /* likewise, but for one with force */
void interrupt_again(bool force); /* for the main thread: the last interrupt is not over */
void interrupt_discard(void); /* discards an interrupt that was raised */
bool interrupt_forced(void); /* reports once that a raise with force is due */
void interrupt_mend(void); /* for the main thread, outside of main_wait() */
void interrupt_due(void); /* lets R take an interrupt before it goes on: may jump */

/* ---- code.c: our R code */

void code_learn_browser(void); /* makes R's browser ask once, so that console.c learns its prompt */
void code_load(void);
void code_listen(void);    /* to errors; once, at the top level */
void code_finish(void);
void code_end_cell(void); /* code_finish at the end of a notebook's cell */
bool code_functions(void); /* the list of functions of the host has changed */
bool code_width(void);     /* R's width follows the terminal's */
bool code_asks(void);      /* reports whether readline() or menu() reads */
void code_drawing(void); /* from now on there are pages to look at */
bool code_page(bool midline, bool value); /* sends new drawings before text; value: of a value, which begins. false: interrupted */
bool code_value(SEXP value); /* a value was echoed. false: interrupted */
void code_answer(const message *query);
bool code_running(void); /* on the main thread: R runs our code, not the user's */

/* ---- for one system only */

#ifdef _WIN32
enum { forked = 0 }; /* there is no fork */
#define ends_here() ((void)0)
#else
void ends_here(void); /* ends a child that only writes an image */
extern pthread_t main_thread;
extern volatile sig_atomic_t forked; /* this is a child of the worker, by fork() */
int move_high(int fd);
void ends_wait(void); /* of R, by a signal, for its locks */
bool write_all(int fd, const void *from, size_t n);
bool terminal_open(const char *nonce);
#endif

/* ---- R's own */

#ifdef _WIN32
#define R_API extern
#define has(name) (found_##name != NULL) /* for those that windows.c lists as such */
extern void *found_R_curErrorBuf, *found_Rf_findVarInFrame, *found_Rf_addTaskCallback, *found_R_BindingIsActive, *found_R_NoEcho;
extern SEXP *found_R_GlobalEnv, *found_R_BaseEnv, *found_R_NilValue, *found_R_NaString, *found_R_UnboundValue;
extern volatile int *found_R_interrupts_pending;
#define R_GlobalEnv (*found_R_GlobalEnv)
#define R_BaseEnv (*found_R_BaseEnv)
#define R_NilValue (*found_R_NilValue)
#define R_NaString (*found_R_NaString)
#define R_UnboundValue (*found_R_UnboundValue)
#define R_interrupts_pending (*found_R_interrupts_pending)
#define R_NoEcho (*(char *)found_R_NoEcho)
#else
#define R_API extern __attribute__((weak))
#define has(name) (&name != NULL)
R_API SEXP R_GlobalEnv, R_BaseEnv, R_NilValue, R_NaString, R_UnboundValue;
R_API int R_interrupts_pending;
R_API char R_NoEcho; /* the significant byte of one or four: it comes first on all supported systems */
#endif

R_API void Rf_jump_to_toplevel(void), R_CheckUserInterrupt(void);
R_API const char *R_curErrorBuf(void);
R_API SEXP Rf_GetOption1(SEXP), Rf_install(const char *), STRING_ELT(SEXP, ptrdiff_t), VECTOR_ELT(SEXP, ptrdiff_t);
R_API SEXP Rf_getAttrib(SEXP, SEXP), Rf_mkString(const char *), Rf_mkCharLenCE(const char *, int, int), Rf_ScalarString(SEXP), Rf_ScalarInteger(int);
R_API SEXP Rf_lang1(SEXP), Rf_lang3(SEXP, SEXP, SEXP), Rf_protect(SEXP);
R_API SEXP R_ParseVector(SEXP, int, int *, SEXP);
R_API SEXP R_tryEvalSilent(SEXP, SEXP, int *);
R_API void Rf_unprotect(int), R_PreserveObject(SEXP), Rf_defineVar(SEXP, SEXP, SEXP);
R_API const char *R_CHAR(SEXP), *Rf_translateCharUTF8(SEXP), *Rf_type2char(unsigned);
R_API int TYPEOF(SEXP), Rf_length(SEXP), *INTEGER(SEXP), Rf_getCharCE(SEXP);
R_API ptrdiff_t Rf_xlength(SEXP);
R_API SEXP Rf_allocVector(unsigned, ptrdiff_t), SET_VECTOR_ELT(SEXP, ptrdiff_t, SEXP), Rf_setAttrib(SEXP, SEXP, SEXP);
R_API SEXP Rf_lang2(SEXP, SEXP), Rf_eval(SEXP, SEXP);
R_API void SET_STRING_ELT(SEXP, ptrdiff_t, SEXP);
R_API void R_LockBinding(SEXP, SEXP), R_unLockBinding(SEXP, SEXP);
R_API double *REAL(SEXP);
R_API int *LOGICAL(SEXP);
R_API unsigned char *RAW(SEXP), Rf_inherits(SEXP, const char *); /* the significant byte */
R_API void *Rf_addTaskCallback(int (*)(SEXP, SEXP, int, int, void *), void *, void (*)(void *), const char *, int *);
R_API char *R_alloc(size_t, int); /* memory until .Call() ends */
R_API SEXP Rf_findVarInFrame(SEXP, SEXP); /* a promise as it is */
R_API unsigned char R_BindingIsActive(SEXP, SEXP); /* the significant byte */

enum {
	R_SYMSXP = 1, R_CLOSXP = 3, R_ENVSXP = 4, R_PROMSXP = 5, R_LANGSXP = 6, R_SPECIALSXP = 7, R_BUILTINSXP = 8,
	R_LGLSXP = 10, R_INTSXP = 13, R_REALSXP = 14, R_CPLXSXP = 15, R_STRSXP = 16, R_VECSXP = 19, R_EXPRSXP = 20, R_RAWSXP = 24
};
enum { R_UTF8 = 1 }; /* cetype_t */

#endif
