/* Calls into our own R code, worker.R, which does plots and completion. It runs on the main
 * thread while R asks for input. For all systems. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

static SEXP quietly, finish_call, end_cell_call, page_call, variables_call, refresh_call, listen_call, complete_function, inspect_function, table_function, parse_function, value_function, width_function, asks_call;
static bool drawing;                /* a device of ours has been opened */
static unsigned long texts, look_at; /* since the last drawing: texts written, and at which one to look again */
static int running;

bool code_running(void) { return running > 0; }

void code_drawing(void) {
	drawing = true;
	texts = 0;
	look_at = 1;
}

/* eval evaluates a call, and returns NULL after an interrupt. quietly() of worker.R catches errors: an
 * uncaught one would make R run the user's options(error). Nothing is printed, and R's last error
 * is preserved, because a turn may have ended with it. */
static SEXP eval(SEXP call, SEXP env) {
	int failed = 0;
	char *error = has(R_curErrorBuf) ? (char *)R_curErrorBuf() : NULL, saved[8192]; /* as large as R's */
	if (error != NULL)
		snprintf(saved, sizeof saved, "%s", error);
	call = Rf_protect(quietly != NULL ? Rf_lang2(quietly, call) : call);
	running++;
	SEXP value = R_tryEvalSilent(call, env, &failed);
	running--;
	Rf_unprotect(1);
	if (error != NULL && strcmp(error, saved) != 0)
		strcpy(error, saved);
	return failed ? NULL : value;
}

void code_learn_browser(void) {
	console_learn_browser(true);
	SEXP call = Rf_protect(Rf_lang1(Rf_install("browser")));
	eval(call, R_BaseEnv);
	Rf_unprotect(1);
	console_learn_browser(false);
}

static SEXP text_vector(const char *text, size_t n) {
	SEXP c = Rf_protect(Rf_mkCharLenCE(text, (int)n, R_UTF8));
	SEXP s = Rf_ScalarString(c);
	Rf_unprotect(1);
	return s;
}

enum { PARSE_OK = 1, PARSE_INCOMPLETE = 2, PARSE_ERROR = 3 }; /* R's */

static const char *const load =
	"base::tryCatch(base::local({"
	"files <- base::.C('turnstone_files', '')[[1L]];"
	"e <- base::new.env(parent = base::baseenv());"
	"e$files <- files;"
	"r <- NULL;"
	"for (x in base::parse(base::file.path(files, 'worker.R'), keep.source = FALSE, encoding = 'UTF-8')) r <- base::eval(x, e);"
	"r}), error = function(e) NULL)";

static SEXP element(SEXP list, const char *name) {
	SEXP names = Rf_getAttrib(list, Rf_install("names"));
	for (int i = 0; TYPEOF(list) == R_VECSXP && i < Rf_length(names); i++)
		if (strcmp(R_CHAR(STRING_ELT(names, i)), name) == 0)
			return VECTOR_ELT(list, i);
	return NULL;
}

/* after_value is called after each expression at the top level, once its value was printed. */
static int after_value(SEXP expression, SEXP value, int good, int visible, void *none) {
	(void)expression, (void)good, (void)none;
	console_went_on(true);
	if ((visible & 0xff) != 0 && running == 0 && !forked)
		console_value(value);
	return 1; /* R calls it again after the next one */
}

static void removed(void *none) {
	(void)none;
	console_went_on(false);
}

/* is_matrix reports whether a value is a matrix of no class. */
static bool is_matrix(SEXP value) {
	SEXP dim = Rf_getAttrib(value, Rf_install("dim")), class = Rf_getAttrib(value, Rf_install("class"));
	return TYPEOF(dim) == R_INTSXP && Rf_length(dim) == 2 && TYPEOF(class) != R_STRSXP;
}

bool code_value(SEXP value) {
	if (value_function == NULL || !(Rf_inherits(value, "data.frame") || is_matrix(value)))
		return true;
	SEXP call = Rf_protect(Rf_lang2(value_function, value));
	bool good = eval(call, R_BaseEnv) != NULL;
	Rf_unprotect(1);
	return good;
}

void code_load(void) {
	int status = 0;
	SEXP code = Rf_protect(Rf_mkString(load));
	SEXP parsed = Rf_protect(R_ParseVector(code, -1, &status, R_NilValue));
	if (status == PARSE_OK) {
		SEXP functions = eval(VECTOR_ELT(parsed, 0), R_BaseEnv);
		if (functions != NULL) {
			Rf_protect(functions);
			quietly = element(functions, "quietly");
			SEXP finish = element(functions, "finish");
			complete_function = element(functions, "complete");
			inspect_function = element(functions, "inspect");
			table_function = element(functions, "table");
			parse_function = element(functions, "parse");
			value_function = element(functions, "value");
			width_function = element(functions, "width");
			SEXP asks = element(functions, "asks");
			if (asks != NULL)
				R_PreserveObject(asks_call = Rf_lang1(asks));
			if (finish != NULL)
				R_PreserveObject(finish_call = Rf_lang1(finish));
			SEXP end_cell = element(functions, "end_cell");
			if (end_cell != NULL)
				R_PreserveObject(end_cell_call = Rf_lang1(end_cell));
			SEXP page = element(functions, "page");
			if (page != NULL)
				R_PreserveObject(page_call = Rf_lang1(page));
			SEXP refresh = element(functions, "refresh");
			if (refresh != NULL)
				R_PreserveObject(refresh_call = Rf_lang1(refresh));
			SEXP listen = element(functions, "listen");
			if (listen != NULL)
				R_PreserveObject(listen_call = Rf_lang1(listen));
			SEXP variables = element(functions, "variables");
			if (variables != NULL)
				R_PreserveObject(variables_call = Rf_lang1(variables));
			R_PreserveObject(functions);
			Rf_unprotect(1);
		}
	}
	Rf_unprotect(2);
	if (value_function != NULL && has(Rf_addTaskCallback)) {
		Rf_addTaskCallback(after_value, NULL, removed, "turnstone", NULL);
		console_went_on(true);
	}
	if (complete_function == NULL) {
		static const char lame[] = "turnstone: the worker's own code does not run in this R; no images and no completion\n";
		terminal_error(lame, sizeof lame - 1, false);
	}
}

/* code_listen makes R report uncaught errors to console_error(). Global handlers can only be set at the
 * top level. */
void code_listen(void) {
	if (listen_call != NULL)
		Rf_eval(listen_call, R_BaseEnv);
}

bool code_functions(void) {
	return refresh_call != NULL && eval(refresh_call, R_BaseEnv) != NULL;
}

bool code_width(void) {
	static int known;
	int now = terminal_width();
	if (now == known || width_function == NULL)
		return false;
	known = now;
	SEXP call = Rf_protect(Rf_lang2(width_function, Rf_protect(Rf_ScalarInteger(now))));
	bool good = eval(call, R_BaseEnv) != NULL;
	Rf_unprotect(2);
	return good;
}

bool code_asks(void) {
	SEXP asks = asks_call != NULL ? eval(asks_call, R_BaseEnv) : NULL;
	return asks != NULL && TYPEOF(asks) == R_LGLSXP; /* NULL after an interrupt */
}

static void finish(SEXP call) {
	if (!drawing || call == NULL)
		return;
	eval(call, R_BaseEnv);
	code_drawing();
}

void code_finish(void) { finish(finish_call); }

void code_end_cell(void) { finish(end_cell_call); }

/* The result of a look at a page. worker.R uses the same values. */
enum { PAGE_NONE, PAGE_UNCHANGED, PAGE_SENT, PAGE_INTERRUPTED };

bool code_page(bool midline, bool value) {
	if (!drawing || page_call == NULL || running > 0)
		return true;
	if (!value) {
		if (++texts < look_at || (midline && look_at > 1))
			return true;
		look_at = 2 * texts; /* so that much text causes few looks */
	}
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
		interrupt_again(false);
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
	for (int i = 0; i < n; i++) /* may allocate and fail, so not while a frame is under construction */
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

/* answer_with_data answers with the text that a call returns; no text means that nothing is known. */
static void answer_with_data(const message *q, const char *mime, SEXP call) {
	Rf_protect(call);
	SEXP result = eval(call, R_BaseEnv);
	Rf_protect(result != NULL ? result : R_NilValue);
	bool found = result != NULL && TYPEOF(result) == R_STRSXP && Rf_length(result) == 1;
	const char *data = found ? Rf_translateCharUTF8(STRING_ELT(result, 0)) : "";
	console_answered();
	frame *f = send_begin("query_result", 2 + found, false);
	put_uint(f, "id", q->id);
	put_text(f, "status", result != NULL && TYPEOF(result) == R_STRSXP ? "ok" : "timeout");
	if (found) {
		put_map_head(f, "data", 1);
		put_bin(f, mime, data, strlen(data));
	}
	send_frame(f, NULL, 0);
	Rf_unprotect(2);
}

static void answer_inspection(const message *q) {
	SEXP text = Rf_protect(text_vector((const char *)q->text.at, q->text.n));
	SEXP cursor = Rf_protect(Rf_ScalarInteger((int)(q->cursor < q->text.n ? q->cursor : q->text.n)));
	answer_with_data(q, "text/plain", Rf_lang3(inspect_function, text, cursor));
	Rf_unprotect(2);
}

static void answer_table(const message *q) {
	SEXP text = Rf_protect(text_vector((const char *)q->text.at, q->text.n));
	answer_with_data(q, "application/vnd.turnstone.table+json", Rf_lang2(table_function, text));
	Rf_unprotect(1);
}

/* turnstone_parse is called by worker.R, which suppresses errors and warnings of the parser. */
EXPORT SEXP turnstone_parse(SEXP text) {
	int status = PARSE_ERROR;
	R_ParseVector(text, -1, &status, R_NilValue);
	return Rf_ScalarInteger(status);
}

static void answer_parse(const message *q) {
	SEXP text = Rf_protect(text_vector((const char *)q->text.at, q->text.n));
	SEXP call = Rf_protect(Rf_lang2(parse_function, text));
	SEXP result = eval(call, R_BaseEnv);
	int found = result != NULL && TYPEOF(result) == R_INTSXP ? INTEGER(result)[0] : PARSE_ERROR;
	Rf_unprotect(2);
	const char *status = result == NULL ? "timeout" : found == PARSE_INCOMPLETE ? "incomplete" : found == PARSE_ERROR ? "invalid" : "complete";
	console_answered();
	frame *f = send_begin("query_result", 2, false);
	put_uint(f, "id", q->id);
	put_text(f, "status", status);
	send_frame(f, NULL, 0);
}

/* ---- variables: nothing is evaluated, and no method of a class is called */

typedef struct {
	char name[MAX_BRIEF + 4], type[MAX_BRIEF + 4], shape[64]; /* 4: the codec cuts between characters */
	uint64_t bytes;
} variable;

static struct {
	variable *at;
	int n;
	ptrdiff_t all;
} listing;

static bool is_function(int type) { return type == R_CLOSXP || type == R_SPECIALSXP || type == R_BUILTINSXP; }

/* own_bytes returns the size of a vector without its elements' contents, or 0 for any other value. */
static uint64_t own_bytes(SEXP value) {
	int type = TYPEOF(value);
	int each = type == R_LGLSXP || type == R_INTSXP ? 4 : type == R_REALSXP || type == R_STRSXP || type == R_VECSXP || type == R_EXPRSXP ? 8 :
		type == R_CPLXSXP ? 16 : type == R_RAWSXP ? 1 : 0;
	return each > 0 ? 48 + (uint64_t)each * (uint64_t)Rf_xlength(value) : 0;
}

/* implicit_class returns class() of a value without a class attribute. */
static const char *implicit_class(int type) {
	switch (type) {
	case R_REALSXP: return "numeric";
	case R_SYMSXP: return "name";
	case R_LANGSXP: return "call";
	default: return is_function(type) ? "function" : Rf_type2char((unsigned)type);
	}
}

static void describe(variable *v, SEXP value) {
	int type = TYPEOF(value);
	SEXP class = Rf_getAttrib(value, Rf_install("class")), dim = Rf_getAttrib(value, Rf_install("dim"));
	int sides = TYPEOF(dim) == R_INTSXP ? Rf_length(dim) : 0;
	const char *name = sides == 2 ? "matrix" : sides > 0 ? "array" : implicit_class(type);
	bool classed = TYPEOF(class) == R_STRSXP && Rf_length(class) > 0;
	snprintf(v->type, sizeof v->type, "%s", classed ? Rf_translateCharUTF8(STRING_ELT(class, 0)) : name);
	v->bytes = own_bytes(value);
	if (v->bytes == 0)
		return;
	size_t n = 0;
	for (int i = 0; i < sides && n < sizeof v->shape; i++)
		n += (size_t)snprintf(v->shape + n, sizeof v->shape - n, i == 0 ? "(%d" : ", %d", INTEGER(dim)[i]);
	if (sides > 0 && n < sizeof v->shape - 1) {
		strcpy(v->shape + n, ")");
		return;
	}
	for (int i = 0; classed && type == R_VECSXP && i < Rf_length(class); i++) {
		if (strcmp(R_CHAR(STRING_ELT(class, i)), "data.frame") != 0)
			continue;
		snprintf(v->shape, sizeof v->shape, "(%lld, %d)", (long long)Rf_xlength(Rf_getAttrib(value, Rf_install("row.names"))), Rf_length(value));
		for (int column = 0; column < Rf_length(value); column++)
			v->bytes += own_bytes(VECTOR_ELT(value, column));
		return;
	}
	snprintf(v->shape, sizeof v->shape, "%lld", (long long)Rf_xlength(value));
}

/* turnstone_is_promise is called by worker.R, because R code cannot find that out. */
EXPORT SEXP turnstone_is_promise(SEXP symbol, SEXP env) {
	return Rf_ScalarInteger(has(Rf_findVarInFrame) && TYPEOF(Rf_findVarInFrame(env, symbol)) == R_PROMSXP);
}

/* turnstone_variables fills the listing. It is called by worker.R, as turnstone_parse is. */
EXPORT SEXP turnstone_variables(SEXP names) {
	listing.all = Rf_xlength(names);
	for (int functions = 0; functions < 2; functions++)
		for (ptrdiff_t i = 0; i < listing.all && listing.n < MAX_VARIABLES; i++) {
			SEXP name = STRING_ELT(names, i), symbol = Rf_install(R_CHAR(name)), value = NULL;
			const char *type = "active binding";
			if (!R_BindingIsActive(symbol, R_GlobalEnv)) {
				value = Rf_findVarInFrame(R_GlobalEnv, symbol);
				type = "promise";
			}
			if ((value != NULL && is_function(TYPEOF(value))) != functions)
				continue;
			variable *v = &listing.at[listing.n];
			memset(v, 0, sizeof *v);
			snprintf(v->name, sizeof v->name, "%s", Rf_translateCharUTF8(name));
			if (value != NULL && TYPEOF(value) != R_PROMSXP)
				describe(v, value);
			else
				snprintf(v->type, sizeof v->type, "%s", type);
			listing.n++;
		}
	return Rf_ScalarInteger(listing.n);
}

static void answer_variables(const message *q) {
	listing.at = calloc(MAX_VARIABLES, sizeof *listing.at);
	listing.n = 0;
	SEXP result = variables_call != NULL && listing.at != NULL ? eval(variables_call, R_BaseEnv) : NULL;
	bool good = result != NULL && TYPEOF(result) == R_INTSXP;
	uint64_t more = good ? (uint64_t)(listing.all - listing.n) : 0;
	console_answered();
	frame *f = send_begin("query_result", 2 + good + (more > 0), false);
	put_uint(f, "id", q->id);
	put_text(f, "status", good ? "ok" : "timeout");
	if (good) {
		put_array_head(f, "variables", listing.n);
		for (variable *v = listing.at; v < listing.at + listing.n; v++) {
			put_map(f, 2 + (*v->shape != 0) + (v->bytes > 0));
			put_text_n(f, "name", v->name, strlen(v->name), MAX_BRIEF);
			put_text_n(f, "type", v->type, strlen(v->type), MAX_BRIEF);
			if (*v->shape != 0)
				put_text(f, "shape", v->shape);
			if (v->bytes > 0)
				put_uint(f, "bytes", v->bytes);
		}
	}
	if (more > 0)
		put_uint(f, "more", more);
	send_frame(f, NULL, 0);
	free(listing.at);
	listing.at = NULL;
}

void code_answer(const message *q) {
	if (q->kind == VARIABLES) {
		answer_variables(q);
	} else if (q->text.at == NULL || (q->kind == COMPLETE ? complete_function : q->kind == INSPECT ? inspect_function : q->kind == TABLE ? table_function : parse_function) == NULL) {
		console_answered();
		frame *f = send_begin("query_result", 2, false);
		put_uint(f, "id", q->id);
		put_text(f, "status", q->kind == PARSE ? "complete" : "ok");
		send_frame(f, NULL, 0);
	} else if (q->kind == COMPLETE) {
		answer_completion(q);
	} else if (q->kind == INSPECT) {
		answer_inspection(q);
	} else if (q->kind == TABLE) {
		answer_table(q);
	} else {
		answer_parse(q);
	}
}
