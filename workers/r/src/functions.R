# The environment `turnstone`, which has the host's functions.
#
# Values are sent as encoded values (docs/worker-protocol.md), which the shim reads and writes. A vector of
# length one is a scalar, I(x) an array; NA is null; names make an object. An array of
# scalars of one kind is a vector, and an array of similar objects a data frame.

dll <- getLoadedDLLs()[["turnstone"]]
native <- lapply(c(functions = "turnstone_functions", begin = "turnstone_call_begin", result = "turnstone_call_result",
                   done = "turnstone_call_done"), function(name) getNativeSymbolInfo(name, dll)$address)

# ---- calls

fail <- function(name, message) {
  stop(structure(class = c(name, "turnstoneError", "error", "condition"), list(message = message, call = NULL)))
}

call_host <- function(name, args) {
  cell <- numeric(2L) # the call's number and its outcome, which the shim stores here
  on.exit(.Call(native$done, cell))
  wrong <- .Call(native$begin, cell, name, args)
  if (!is.null(wrong)) fail(wrong[[1L]], paste0(name, ": argument ", wrong[[2L]]))
  if (cell[[1L]] == 0) fail("CallError", paste0(name, ": a forked child cannot call functions of the host; call it in the parent, and pass the result on"))
  if (cell[[1L]] == -1) fail("CallError", paste0(name, ": 32 nested calls are open already"))
  if (cell[[1L]] == -2) fail("CallError", paste0(name, ": the session is ending"))
  result <- .Call(native$result, cell)
  state <- cell[[2L]]
  if (state == 0) return(result)
  if (state == 1) fail(as.character(result[["name"]]), as.character(result[["message"]]))
  if (state == 2) fail("CallError", paste0(name, ": the session is ending"))
  fail("CallError", paste0(name, ": the result cannot be read: ", result))
}

# ---- the environment

offered <- new.env(parent = emptyenv())

full_name <- function(entry) if (is.null(entry$group) || is.na(entry$group)) entry$name else paste0(entry$group, ".", entry$name)

# turnstone$tools has groups, such as the tools of one MCP server. The functions of a group are known
# once the host has opened it, which the first access does.
groups <- new.env(parent = emptyenv())
tools <- structure(new.env(parent = emptyenv()), class = "turnstoneTools")

group_names <- function() {
  opener <- attr(offered[["_open"]], "turnstone")
  sort(unique(c(ls(groups), as.character(unlist(opener$params$properties$group$enum)))))
}

group <- function(x, name) {
  name <- as.character(name)
  if (!name %in% group_names()) fail("NameError", paste0("there are no tools ", name, ": there are ", paste(group_names(), collapse = ", ")))
  if (!exists(name, envir = groups, inherits = FALSE) && !is.null(offered[["_open"]])) {
    offered[["_open"]](name)
    refresh()
  }
  structure(list(name), class = "turnstoneGroup")
}

functions_of <- function(x) groups[[unclass(x)[[1L]]]]

member <- function(x, name) {
  all <- functions_of(x)
  found <- all[[name]]
  if (is.null(found)) { # an R name for a name that R does not allow: get_env for get-env
    at <- match(name, gsub("[^A-Za-z0-9_.]", "_", names(all)))
    if (is.na(at)) fail("NameError", paste0(unclass(x)[[1L]], " has no function ", name, ": it has ", paste(names(all), collapse = ", ")))
    found <- all[[at]]
  }
  found
}

show_names <- function(x, ...) {
  writeLines(names(x))
  invisible(x)
}

methods_of_groups <- function() {
  method <- function(generic, class, f) registerS3method(generic, class, f, envir = baseenv())
  for (generic in c("$", "[[")) {
    method(generic, "turnstoneTools", group)
    method(generic, "turnstoneGroup", member)
  }
  method("names", "turnstoneTools", function(x) group_names())
  method("names", "turnstoneGroup", function(x) names(functions_of(x)))
  method("print", "turnstoneTools", show_names)
  method("print", "turnstoneGroup", show_names)
  if (!"utils" %in% loadedNamespaces()) return()
  method <- function(generic, class, f) registerS3method(generic, class, f, envir = asNamespace("utils")) # where completion looks
  method(".DollarNames", "turnstoneTools", function(x, pattern) grep(pattern, group_names(), value = TRUE))
  method(".DollarNames", "turnstoneGroup", function(x, pattern) grep(pattern, gsub("[^A-Za-z0-9_.]", "_", names(functions_of(x))), value = TRUE))
}

make <- function(entry) {
  true <- full_name(entry)
  properties <- entry$params$properties
  any <- is.null(properties)
  required <- as.character(unlist(entry$params$required))
  parameters <- c(intersect(names(properties), required), setdiff(names(properties), required))
  f <- function() NULL
  formals(f) <- if (any) alist(... = ) else structure(rep(alist(x = ), length(parameters)), names = parameters)
  # The body contains the functions themselves, so that no parameter can mask one.
  given <- lapply(parameters, function(n) as.call(list(`if`, as.call(list(`!`, as.call(list(missing, as.name(n))))), as.call(structure(list(list, as_given(as.name(n), properties[[n]])), names = c("", n))))))
  args <- if (any) as.call(list(list, quote(...))) else as.call(c(list(c), given))
  body(f) <- as.call(list(call_host, true, args))
  environment(f) <- baseenv()
  structure(f, class = "turnstoneFunction", turnstone = entry)
}

# An argument of type array is an array even if it has one element.
fitting <- function(value) {
  if (is.atomic(value) && !is.null(value) && !is.raw(value) && is.null(names(value))) I(value) else value
}

# The code for an argument in a call.
as_given <- function(name, schema) if (identical(schema$type, "array")) as.call(list(fitting, name)) else name

words <- function(schema) {
  kind <- paste(as.character(unlist(schema$type)), collapse = " or ")
  paste0(if (nzchar(kind)) kind else "anything", if (!is.null(schema$description)) paste0(". ", schema$description))
}

print_function <- function(x, ...) {
  entry <- attr(x, "turnstone")
  properties <- entry$params$properties
  required <- as.character(unlist(entry$params$required))
  shown <- vapply(names(formals(x)), function(n) if (n == "..." || n %in% required) n else paste0("[", n, "]"), "")
  writeLines(c(paste0("turnstone$", if (full_name(entry) != entry$name) paste0("tools$", entry$group, "$"), entry$name, "(", paste(shown, collapse = ", "), ")"), entry$doc))
  for (n in names(properties)) writeLines(paste0("  ", n, ": ", words(properties[[n]])))
  invisible(x)
}

# The environment `turnstone` is put on the search path once the host has functions.
refresh <- function() {
  entries <- as_entries(.Call(native$functions, l10n_info()[["UTF-8"]]))
  rm(list = ls(offered, all.names = TRUE), envir = offered)
  rm(list = ls(groups, all.names = TRUE), envir = groups)
  for (entry in entries) {
    if (identical(full_name(entry), entry$name)) assign(entry$name, make(entry), envir = offered)
    else groups[[entry$group]] <- c(groups[[entry$group]], structure(list(make(entry)), names = entry$name))
  }
  if (length(group_names()) > 0L) assign("tools", tools, envir = offered)
  if (length(entries) > 0L && !"turnstone" %in% search()) {
    registerS3method("print", "turnstoneFunction", print_function, envir = baseenv())
    methods_of_groups()
    attached <- attach(NULL, pos = length(search()), name = "turnstone", warn.conflicts = FALSE)
    assign("turnstone", offered, envir = attached)
  }
  invisible()
}

# The entries of the list, which may look like a data frame.
as_entries <- function(entries) {
  if (is.data.frame(entries)) lapply(seq_len(nrow(entries)), function(i) lapply(entries, `[[`, i)) else entries
}

refresh
