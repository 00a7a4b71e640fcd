/* R code that is ours: worker.R, which knows plots and completion. It runs on the main
 * thread, at moments when R asks for input. */
#include "shim.h"

#include <string.h>

static SEXP finish_call, page_call, complete_function;
static bool drawing;                /* a device of ours has been opened */
static unsigned long texts, look_at; /* since something was drawn: texts, and which one gives cause to look again */
static int running;

bool code_running(void) { return running > 0; }

void code_drawing(void) {
	drawing = true;
	texts = 0;
	look_at = 1;
}

/* eval evaluates, and returns NULL after an error or an interrupt. Nothing is printed, and
 * R's last error stays what it was: a turn may have ended with it. */
static SEXP eval(SEXP call, SEXP env) {
	int failed = 0;
	char *error = R_curErrorBuf != NULL ? (char *)R_curErrorBuf() : NULL, kept[8192]; /* as large as R's */
	if (error != NULL)
		snprintf(kept, sizeof kept, "%s", error);
	running++;
	SEXP value = R_tryEvalSilent(call, env, &failed);
	running--;
	if (error != NULL && strcmp(error, kept) != 0)
		strcpy(error, kept);
	return failed ? NULL : value;
}

static SEXP text_vector(const char *text, size_t n) {
	SEXP c = Rf_protect(Rf_mkCharLenCE(text, (int)n, R_UTF8));
	SEXP s = Rf_ScalarString(c);
	Rf_unprotect(1);
	return s;
}

typedef struct {
	SEXP text, value;
	int status;
} parsing;

enum { PARSE_OK = 1, PARSE_INCOMPLETE = 2, PARSE_ERROR = 3 };

static void parse_it(void *p) {
	parsing *what = p;
	what->value = R_ParseVector(what->text, -1, &what->status, R_NilValue);
}

static const char *const load =
	"base::local({"
	"files <- base::.C('turnstone_files', '')[[1L]];"
	"e <- base::new.env(parent = base::baseenv());"
	"e$files <- files;"
	"r <- NULL;"
	"for (x in base::parse(base::file.path(files, 'worker.R'), keep.source = FALSE, encoding = 'UTF-8')) r <- base::eval(x, e);"
	"r})";

static SEXP element(SEXP list, const char *name) {
	SEXP names = Rf_getAttrib(list, Rf_install("names"));
	for (int i = 0; TYPEOF(list) == R_VECSXP && i < Rf_length(names); i++)
		if (strcmp(R_CHAR(STRING_ELT(names, i)), name) == 0)
			return VECTOR_ELT(list, i);
	return NULL;
}

void code_load(void) {
	parsing p = {.text = Rf_protect(Rf_mkString(load))};
	if (R_ToplevelExec(parse_it, &p) && p.status == PARSE_OK) {
		Rf_protect(p.value);
		SEXP functions = eval(VECTOR_ELT(p.value, 0), R_BaseEnv);
		if (functions != NULL) {
			Rf_protect(functions);
			SEXP finish = element(functions, "finish");
			complete_function = element(functions, "complete");
			if (finish != NULL)
				R_PreserveObject(finish_call = Rf_lang1(finish));
			SEXP page = element(functions, "page");
			if (page != NULL)
				R_PreserveObject(page_call = Rf_lang1(page));
			R_PreserveObject(functions);
			Rf_unprotect(1);
		}
		Rf_unprotect(1);
	}
	Rf_unprotect(1);
	if (complete_function == NULL) {
		static const char lame[] = "turnstone: its own code does not run in this R: no pictures, no completion\n";
		terminal_error(lame, sizeof lame - 1);
	}
}

void code_finish(void) {
	if (!drawing || finish_call == NULL)
		return;
	eval(finish_call, R_BaseEnv);
	code_drawing();
}

/* What looking at a page has found; the values are worker.R's, too. */
enum { PAGE_NONE, PAGE_UNCHANGED, PAGE_SENT, PAGE_INTERRUPTED };

bool code_page(bool midline) {
	if (!drawing || page_call == NULL || running > 0 || ++texts < look_at || (midline && look_at > 1))
		return true;
	look_at = 2 * texts; /* much text costs few looks */
	SEXP found = eval(page_call, R_BaseEnv);
	if (found == NULL || TYPEOF(found) != R_INTSXP)
		return false;
	switch (INTEGER(found)[0]) {
	case PAGE_NONE:
		drawing = false;
		break;
	case PAGE_SENT:
		code_drawing();
		break;
	case PAGE_INTERRUPTED:
		R_interrupts_pending = 1;
		return false;
	}
	return true;
}

static void answer_completion(const message *q) {
	SEXP text = Rf_protect(text_vector((const char *)q->text.at, q->text.n));
	SEXP cursor = Rf_protect(Rf_ScalarInteger((int)(q->cursor < q->text.n ? q->cursor : q->text.n)));
	SEXP call = Rf_protect(Rf_lang3(complete_function, text, cursor));
	SEXP result = eval(call, R_BaseEnv);
	Rf_protect(result != NULL ? result : R_NilValue);
	SEXP start = result != NULL ? element(result, "start") : NULL;
	SEXP matches = result != NULL ? element(result, "matches") : NULL;
	bool good = start != NULL && TYPEOF(start) == R_INTSXP && Rf_length(start) == 1 &&
		matches != NULL && TYPEOF(matches) == R_STRSXP;
	int n = !good ? 0 : Rf_length(matches) < MAX_MATCHES ? Rf_length(matches) : MAX_MATCHES;
	const char *match[MAX_MATCHES];
	for (int i = 0; i < n; i++) /* may allocate, and fail: not while a frame is under way */
		match[i] = Rf_translateCharUTF8(STRING_ELT(matches, i));

	console_answered();
	frame *f = send_begin("query_result", 4, false);
	put_uint(f, "id", q->id);
	put_text(f, "status", good ? "ok" : "timeout");
	put_uint(f, "start", good && INTEGER(start)[0] > 0 ? (uint64_t)INTEGER(start)[0] : 0);
	put_array_head(f, "matches", n);
	for (int i = 0; i < n; i++)
		put_element(f, match[i]);
	send_frame(f, NULL, 0);
	Rf_unprotect(4);
}

static void answer_parse(const message *q) {
	parsing p = {.text = Rf_protect(text_vector((const char *)q->text.at, q->text.n))};
	running++;
	bool over = R_ToplevelExec(parse_it, &p);
	running--;
	Rf_unprotect(1);
	const char *status = !over ? "timeout" : p.status == PARSE_INCOMPLETE ? "incomplete" : p.status == PARSE_ERROR ? "invalid" : "complete";
	console_answered();
	frame *f = send_begin("query_result", 2, false);
	put_uint(f, "id", q->id);
	put_text(f, "status", status);
	send_frame(f, NULL, 0);
}

void code_answer(const message *q) {
	if (q->text.at == NULL || (q->complete && complete_function == NULL)) {
		console_answered();
		frame *f = send_begin("query_result", 2, false);
		put_uint(f, "id", q->id);
		put_text(f, "status", q->complete ? "ok" : "complete");
		send_frame(f, NULL, 0);
	} else if (q->complete) {
		answer_completion(q);
	} else {
		answer_parse(q);
	}
}
