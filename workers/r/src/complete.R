# Completion, mostly with the functions of R's own terminal. Only the call at the cursor
# matters. Comments and strings are removed, since they would mislead.

MAX_MATCHES <- 200L
CONTEXT <- 4000L  # characters before the cursor that are inspected

# The texts that can replace text[start:cursor], in bytes of UTF-8: list(start, matches).
complete <- function(text, cursor) {
  text <- enc2utf8(text)
  before <- rawToChar(charToRaw(text)[seq_len(min(cursor, nchar(text, "bytes")))])
  Encoding(before) <- "UTF-8"
  found <- silently(candidates(before))
  matches <- unique(found$matches)
  matches <- matches[!is.na(matches) & nzchar(matches) & matches != found$token]
  list(start = nchar(before, "bytes") - nchar(found$token, "bytes"), matches = enc2utf8(matches[seq_len(min(length(matches), MAX_MATCHES))]))
}

# Methods of user code may print or fail.
silently <- function(action, nothing = list(token = "", matches = character())) {
  sink(nowhere <- base::file(nullfile(), "w"))
  on.exit({
    sink()
    close(nowhere)
  })
  tryCatch(suppressWarnings(suppressMessages(action)), error = function(e) nothing)
}

# list(token, matches): the end of the text, and its completions.
candidates <- function(before) {
  pieces <- scan_code(before)
  if (pieces$within %in% c("comment", "end")) return(list(token = "", matches = character()))
  if (pieces$within == "string") return(list(token = pieces$open, matches = in_string(pieces$code, pieces$open)))
  code <- substring(pieces$code, max(1L, nchar(pieces$code) - CONTEXT + 1L))
  package <- regmatches(code, regexec("(^|[^[:alnum:]._])(library|require|requireNamespace|loadNamespace)[[:space:]]*\\([[:space:]]*([[:alnum:].]*)$", code))[[1L]]
  if (length(package)) return(list(token = package[4L], matches = beginning_with(package[4L], installed_packages())))
  export <- regmatches(code, regexec("([[:alpha:]][[:alnum:].]*)(:::?)([[:alnum:]._]*)$", code))[[1L]]
  if (length(export) && !isNamespaceLoaded(export[2L]))
    return(list(token = export[1L], matches = sprintf("%s%s%s", export[2L], export[3L],
      beginning_with(export[4L], names_in_package(export[2L], export[3L] == ":::")))))
  in_code(code)
}

# ---------------------------------------------------------------- the text

# Raw strings, strings, quoted names and comments, complete or cut off by the end.
LITERAL <- paste0("(?s)[rR][\"'](-*)[(\\[{].*?[)\\]}]\\1[\"']", "|\"(?:[^\"\\\\]|\\\\.)*+(?:\"|$)", "|'(?:[^'\\\\]|\\\\.)*+(?:'|$)", "|`[^`]*+(?:`|$)", "|#[^\n]*")

# Removes comments and strings from code, except strings that may be names of elements. Also returns
# what the end of the code is in: "end" is after the closing quote of a string.
scan_code <- function(text) {
  at <- gregexpr(LITERAL, text, perl = TRUE)[[1L]]
  if (at[1L] < 0L) return(list(code = text, within = "", open = ""))
  literal <- regmatches(text, list(at))[[1L]]
  last <- literal[length(literal)]
  at_end <- at[length(at)] + attr(at, "match.length")[length(at)] - 1L == nchar(text)
  kind <- substr(last, 1L, 1L)
  cut <- at_end && (nchar(last) == 1L || substring(last, nchar(last)) != kind || grepl("(^|[^\\\\])(\\\\\\\\)*\\\\.$", last))
  within <- if (!at_end) "" else if (kind == "#") "comment" else if (!cut || kind %in% c("r", "R")) "end" else if (kind != "`") "string" else ""
  new <- ifelse(startsWith(literal, "#"), "", ifelse(grepl("^`|^\"[^\\\\\"(),=]*\"$|^'[^\\\\'(),=]*'$", literal), literal, "NULL"))
  if (within == "string") new[length(new)] <- ""
  regmatches(text, list(at)) <- list(new)
  list(code = text, within = within, open = if (within == "string") substring(last, 2L) else "")
}

beginning_with <- function(prefix, names) sort(unique(names[startsWith(names, prefix)]))

# ---------------------------------------------------------------- strings

# A column name may follow [["a, ["a, [, "a and $.
in_string <- function(code, open) {
  if (grepl("(library|require|requireNamespace|loadNamespace)[[:space:]]*\\([[:space:]]*$", code)) return(beginning_with(open, installed_packages()))
  of <- regmatches(code, regexpr(paste0(PATH, "(?=(?:\\[\\[|\\[(?:[^][()]*,)?|\\$)\\s*$)"), code, perl = TRUE))
  if (length(of)) return(beginning_with(open, if (is.atomic(value <- look_up(of))) attr(value, "names", exact = TRUE) else names_within(value)))
  paths(open)
}

# Files and directories, the latter with a slash.
paths <- function(open) {
  directory <- sub("[^/]*$", "", open)
  where <- path.expand(if (directory == "") "." else directory)
  names <- list.files(where, all.files = startsWith(basename(paste0(open, "x")), "."), no.. = TRUE)
  prefix <- substring(open, nchar(directory) + 1L)
  names <- beginning_with(prefix, names)
  names <- names[seq_len(min(length(names), MAX_MATCHES))]
  sprintf("%s%s%s", directory, names, ifelse(dir.exists(file.path(where, names)), "/", ""))
}

# ---------------------------------------------------------------- packages

installed_packages <- function()
  unlist(lapply(.libPaths(), function(library) {
    names <- list.files(library)
    names[file.exists(file.path(library, names, "DESCRIPTION"))]
  }))

# The names of a package that is not loaded, found without loading it.
names_in_package <- function(package, all) {
  home <- find.package(package, quiet = TRUE)
  if (!length(home)) return(character())
  index <- function(...) {
    file <- file.path(home[1L], ...)
    if (file.exists(file)) readRDS(file)
  }
  namespace <- index("Meta", "nsInfo.rds")
  defined <- names(index("R", paste0(package, ".rdx"))$variables)
  exported <- c(unlist(namespace$exports), unlist(lapply(namespace$exportPatterns, function(p) grep(p, defined, value = TRUE))))
  c(if (all) defined, exported, names(index("data", "Rdata.rdx")$variables))
}

# ---------------------------------------------------------------- code

# A name in R's syntax. R's own completion knows only ASCII, and takes x[y for a name.
WORD <- "[\\p{L}\\p{M}\\p{N}._]"
NAME <- paste0("(?:(?!\\p{N})", WORD, "+|`[^`]*`)")
# The expressions that look_up() reads: pkg::name$part@slot[["element"]][[1]].
STEP <- paste0("(?:[$@]", NAME, "|\\[\\[(?:[0-9]+|\"[^\"]*\"|'[^']*')\\]\\])")
PATH <- paste0("(?<!", WORD, ")(?<![$@`])(?:", NAME, ":::?)?", NAME, STEP, "*")
TOKEN <- paste0("(?:", PATH, "[$@]|\\??", NAME, ":::?|\\?)?(?:", WORD, "*|`[^`]*)$")

in_code <- function(code) {
  code <- gsub("[\n\t]", " ", code)
  token <- regmatches(code, regexpr(TOKEN, code, perl = TRUE))
  if (grepl("[$@]", token)) return(list(token = token, matches = parts_of(token)))
  start <- nchar(code) - nchar(token)
  if (grepl("[$@:`]$", substr(code, 1L, start)) && !grepl("[^:]:$", substr(code, 1L, start))) return(list(token = token, matches = character()))
  if (startsWith(token, "`")) return(list(token = token, matches = quote_names("", beginning_with(substring(token, 2L), unlist(lapply(search(), ls))), TRUE)))

  utils <- asNamespace("utils")
  state <- utils$.CompletionEnv
  utils$.assignLinebuffer(code)
  utils$.assignEnd(nchar(code))
  utils$.assignToken(token)
  utils$.assignStart(start)

  # R searches everywhere for each method of a generic, which takes a second for print().
  settings <- state$settings
  on.exit(state$settings <- settings)
  state$settings[["S3"]] <- FALSE
  called <- utils$inFunction()
  if (!all(can_be_asked(called))) state$settings[["args"]] <- FALSE
  methods_too <- settings[["S3"]] && state$settings[["args"]]
  utils$.completeToken()
  matches <- state[["comps"]]
  if (methods_too) matches <- c(matches, beginning_with(token, arguments_of_methods(called)))
  own <- endsWith(matches, "=")
  matches <- c(matches[own], sort(matches[!own & startsWith(matches, token) & !endsWith(matches, "<-")]))
  prefix <- sub("[^:?]*$", "", matches)
  list(token = token, matches = quote_names(prefix, substring(matches, nchar(prefix) + 1L)))
}

arguments_of_methods <- function(generic) {
  if (length(generic) != 1L || !nzchar(generic) || !exists(generic, globalenv(), mode = "function")) return(character())
  own <- ls(globalenv(), all.names = TRUE)
  if (!all(can_be_asked(own[startsWith(own, paste0(generic, "."))]))) return(character())
  known <- tryCatch(attr(asNamespace("utils")$.S3methods(generic, envir = globalenv()), "info"), error = function(e) NULL)
  classes <- substring(rownames(known), nchar(generic) + 2L)
  found <- unlist(lapply(classes, function(class)
    names(formals(tryCatch(utils::getS3method(generic, class, optional = TRUE, envir = globalenv()), error = function(e) NULL)))))
  sprintf("%s=", setdiff(as.character(found), "..."))
}

# Whether these variables can be read without running code.
can_be_asked <- function(names)
  vapply(names, function(name) !nzchar(name) || is.null(env <- where_is(name)) || is_plain(name, env), NA)

# Completions after the last $ or @ of a token, with the text before it.
parts_of <- function(token) {
  at <- regexpr(paste0("[$@](?:", WORD, "*|`[^`]*)$"), token, perl = TRUE)
  value <- look_up(substr(token, 1L, at - 1L))
  typed <- substring(token, at + 1L)
  prefix <- sub("^`", "", typed)
  names <- if (substr(token, at, at) == "$") names_within(value, prefix) else if (isS4(value)) methods::slotNames(value)
  quote_names(substr(token, 1L, at), beginning_with(prefix, names), startsWith(typed, "`"))
}

# The value of a$b@c[["d"]], if reading it runs no code.
look_up <- function(path) {
  names <- regmatches(path, gregexpr(paste0(WORD, "+|`[^`]*`|\"[^\"]*\"|'[^']*'"), path, perl = TRUE))[[1L]]
  names <- gsub("^[`\"']|[`\"']$", "", names)
  if (!length(names) || !nzchar(names[1L])) return()
  value <- where_is(names[1L])
  if (grepl(paste0("^", NAME, "::"), path, perl = TRUE)) {
    value <- if (isNamespaceLoaded(names[1L])) getExportedValue(names[1L], names[2L])
    names <- names[-(1:2)]
  }
  for (name in names) {
    value <- if (is.environment(value)) { if (exists(name, envir = value, inherits = FALSE) && is_plain(name, value)) get(name, envir = value, inherits = FALSE) }
      else if (isS4(value)) attr(value, name, exact = TRUE)
      else if (is.list(value)) .subset2(value, if (grepl("^[0-9]+$", name)) as.integer(name) else name)
  }
  value
}

# The names in a list or an environment. Methods for .DollarNames() exist for completion and are
# called; no other method is.
names_within <- function(value, prefix = "") {
  for (class in setdiff(attr(value, "class"), c("list", "environment", "data.frame"))) {
    name <- paste0(".DollarNames.", class)
    env <- where_is(name)
    if (is.null(env)) env <- asNamespace("utils")[[".__S3MethodsTable__."]]
    method <- if (exists(name, envir = env, inherits = FALSE) && is_plain(name, env)) get(name, envir = env)
    if (is.function(method)) return(method(value, paste0("^\\Q", prefix)))
  }
  if (is.environment(value)) ls(value, all.names = TRUE) else if (is.list(value)) attr(value, "names", exact = TRUE)
}

# The names after a prefix, with backquotes where R's syntax needs them.
quote_names <- function(before, names, all = FALSE) {
  odd <- nzchar(names) & (all | !grepl(paste0("^(?!\\.?\\p{N})", WORD, "+( ?=)?$"), names, perl = TRUE) & !grepl("^[\"'(\\[]|[]()/]$", names))
  paste0(before, ifelse(odd, paste0("`", names, "`"), names), recycle0 = TRUE)
}

list(complete = complete, silently = silently)
