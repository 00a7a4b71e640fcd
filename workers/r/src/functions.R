# The environment `turnstone`: the functions of the host.
#
# Values go as documents (docs/protocol.md), which are read and written here. A vector of
# length one is a scalar, I(x) an array; NA is null; names make an object. An array of
# scalars of one kind is a vector, one of equal objects is a data frame.

dll <- getLoadedDLLs()[["turnstone"]]
address <- function(name) getNativeSymbolInfo(name, dll)$address
native <- lapply(c(functions = "turnstone_functions", id = "turnstone_call_id", send = "turnstone_call_send",
                   wait = "turnstone_call_wait", take = "turnstone_call_take", done = "turnstone_call_done"), address)

max_bytes <- 32 * 2^20
max_depth <- 128L
bytes <- function(...) as.raw(c(...))

# ---- writing

number <- function(n, width) {
  digits <- numeric(width)
  for (i in width:1) { digits[i] <- n %% 256; n <- n %/% 256 }
  as.raw(digits)
}

head_of <- function(n, small, below, codes) {
  if (n < below) return(as.raw(small + n))
  width <- if (n < 256 && !is.na(codes[1L])) 1L else if (n < 65536) 2L else 4L
  c(as.raw(codes[c(1L, 2L, NA, 3L)[width]]), number(n, width))
}

refuse <- function(place, ...) {
  place <- paste(rev(place), collapse = "")
  stop(simpleError(paste0(if (nzchar(place)) paste0(sub("^[.]", "", place), ": "), ...)))
}

text_bytes <- function(x, place) {
  x <- enc2utf8(x)
  if (!validUTF8(x)) refuse(place, "the text is not UTF-8: send raw bytes")
  data <- charToRaw(x)
  c(head_of(length(data), 0xa0, 32, c(0xd9, 0xda, 0xdb)), data)
}

times <- function(x, place) lapply(as.numeric(x), function(t) {
  if (is.na(t)) return(bytes(0xc0))
  seconds <- floor(t)
  nanos <- round((t - seconds) * 1e6) * 1000
  if (seconds < 0 || seconds >= 2^32)
    return(c(bytes(0xc7, 12, 0xff), number(nanos, 4L), number(if (seconds < 0) 2^32 - 1 - ((-seconds - 1) %/% 2^32) else seconds %/% 2^32, 4L), number(seconds %% 2^32, 4L)))
  if (nanos == 0) return(c(bytes(0xd6, 0xff), number(seconds, 4L)))
  c(bytes(0xd7, 0xff), number(nanos * 4, 4L), number(seconds, 4L))
})

# The elements of a vector, each as its bytes; NA is nil.
elements <- function(x, place) {
  if (inherits(x, "POSIXct")) return(times(x, place))
  if (is.factor(x) || inherits(x, "Date")) x <- as.character(x)
  parts <- switch(typeof(x),
    logical = lapply(x, function(v) if (isTRUE(v)) bytes(0xc3) else bytes(0xc2)),
    integer = {
      data <- rbind(bytes(0xd2), matrix(writeBin(as.vector(x), raw(), endian = "big"), 4L))
      lapply(seq_along(x), function(i) data[, i])
    },
    double = {
      data <- rbind(bytes(0xcb), matrix(writeBin(as.vector(x), raw(), endian = "big"), 8L))
      lapply(seq_along(x), function(i) data[, i])
    },
    character = lapply(x, function(v) if (is.na(v)) bytes(0xc0) else text_bytes(v, place)),
    refuse(place, "a value of type ", typeof(x), " cannot be sent"))
  gone <- is.na(x) & !is.nan(if (is.character(x)) NA else x)
  parts[gone] <- list(bytes(0xc0))
  parts
}

array_of <- function(parts) c(head_of(length(parts), 0x90, 16, c(NA, 0xdc, 0xdd)), unlist(parts))

object_of <- function(parts, names, place) {
  c(head_of(length(parts), 0x80, 16, c(NA, 0xde, 0xdf)),
    unlist(Map(function(n, p) c(text_bytes(n, place), p), names, parts), use.names = FALSE))
}

encode <- function(x, place = character(), depth = 0L) {
  if (depth >= max_depth) refuse(place, "it is nested deeper than ", max_depth)
  if (is.null(x)) return(bytes(0xc0))
  if (is.raw(x)) {
    n <- length(x)
    if (n > max_bytes) refuse(place, "it is too large: at most ", max_bytes, " bytes can be sent")
    return(c(if (n < 256) bytes(0xc4, n) else if (n < 65536) c(bytes(0xc5), number(n, 2L)) else c(bytes(0xc6), number(n, 4L)), as.vector(x)))
  }
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  names <- names(x)
  if (is.data.frame(x)) {
    rows <- lapply(seq_len(nrow(x)), function(i) lapply(x, function(column) column[[i]]))
    return(array_of(Map(function(row, i) encode(row, c(paste0("[", i, "]"), place), depth + 1L), rows, seq_along(rows))))
  }
  if (is.matrix(x)) return(array_of(lapply(seq_len(nrow(x)), function(i) encode(I(as.vector(x[i, ])), place, depth + 1L))))
  if (is.list(x)) {
    if (!is.null(names) && (anyNA(names) || !all(nzchar(names)))) refuse(place, "some of its names are empty")
    at <- if (is.null(names)) paste0("[", seq_along(x), "]") else paste0(".", names)
    parts <- lapply(seq_along(x), function(i) encode(x[[i]], c(at[i], place), depth + 1L))
    return(if (is.null(names)) array_of(parts) else object_of(parts, names, place))
  }
  if (!is.atomic(x)) refuse(place, "a value of type ", typeof(x), " cannot be sent")
  if (is.double(x) && is.null(names) && length(x) > 1L && !inherits(x, c("POSIXct", "Date")) && !anyNA(x)) # at once
    return(c(head_of(length(x), 0x90, 16, c(NA, 0xdc, 0xdd)), as.vector(rbind(bytes(0xcb), matrix(writeBin(as.vector(x), raw(), endian = "big"), 8L)))))
  parts <- elements(x, place)
  if (!is.null(names)) return(object_of(parts, names, place))
  if (length(x) == 1L && !inherits(x, "AsIs")) parts[[1L]] else array_of(parts)
}

# ---- reading

decode <- function(b) {
  at <- 1L
  size <- length(b)
  some <- function(n) {
    if (n > size - at + 1) stop("the document ends inside a value", call. = FALSE)
    from <- at
    at <<- at + as.integer(n)
    if (n == 0) raw() else b[from:(at - 1L)]
  }
  whole <- function(width) sum(as.numeric(some(width)) * 256^((width - 1L):0))
  exact <- function(n) {
    if (abs(n) > 2^53) stop("an integer beyond 2^53, which no number of R is exactly: have it sent as text", call. = FALSE)
    if (abs(n) <= .Machine$integer.max) as.integer(n) else n
  }
  signed <- function(width) {
    n <- whole(width)
    if (width == 8L && n >= 2^63) { # in two halves, which are exact
      at <<- at - 8L
      high <- whole(4L) - 2^32
      return(exact(high * 2^32 + whole(4L)))
    }
    exact(if (width < 8L && n >= 2^(8 * width - 1)) n - 2^(8 * width) else n)
  }
  text <- function(n) {
    data <- some(n)
    if (any(data == as.raw(0))) stop("a text with a NUL, which R has not", call. = FALSE)
    x <- rawToChar(data)
    Encoding(x) <- "UTF-8"
    if (!validUTF8(x)) stop("a text that is not UTF-8", call. = FALSE)
    x
  }
  many <- function(n, depth) {
    if (depth >= max_depth) stop("nested deeper than ", max_depth, call. = FALSE)
    if (n > size - at + 1) stop("the document ends inside a value", call. = FALSE)
    list <- vector("list", n)
    for (i in seq_len(n)) {
      v <- value(depth + 1L)
      if (!is.null(v)) list[[i]] <- v
    }
    list
  }
  # An array of floating-point numbers, which may be long, at once; NULL for any other.
  doubles <- function(n) {
    if (n < 2 || 9 * n > size - at + 1) return(NULL)
    block <- matrix(b[at:(at + 9 * n - 1)], 9L)
    if (!all(block[1L, ] == as.raw(0xcb))) return(NULL)
    at <<- at + as.integer(9 * n)
    readBin(as.vector(block[-1L, ]), "double", n, endian = "big")
  }
  array <- function(n, depth) {
    numbers <- doubles(n)
    if (is.null(numbers)) simplify(many(n, depth)) else numbers
  }
  object <- function(n, depth) {
    all <- many(2 * n, depth)
    names <- all[seq_len(n) * 2 - 1]
    if (!all(vapply(names, is.character, NA))) stop("a key of a map is not text", call. = FALSE)
    structure(all[seq_len(n) * 2], names = as.character(unlist(names)))
  }
  time <- function(n) {
    force(n) # which reads, before what follows it
    if (some(1L) != as.raw(0xff) || !n %in% c(4L, 8L, 12L)) stop("an extension that is no timestamp", call. = FALSE)
    nanos <- 0
    if (n == 4L) seconds <- whole(4L)
    if (n == 8L) {
      high <- whole(4L)
      seconds <- whole(4L) + (high %% 4) * 2^32
      nanos <- high %/% 4
    }
    if (n == 12L) {
      nanos <- whole(4L)
      high <- whole(4L)
      seconds <- (if (high >= 2^31) high - 2^32 else high) * 2^32 + whole(4L)
    }
    if (nanos >= 1e9) stop("an extension that is no timestamp", call. = FALSE)
    as.POSIXct(seconds + nanos / 1e9, origin = "1970-01-01", tz = "UTC")
  }
  value <- function(depth) {
    code <- as.integer(some(1L))
    if (code < 0x80) return(code)
    if (code >= 0xe0) return(code - 256L)
    if (code < 0x90) return(object(code - 0x80, depth))
    if (code < 0xa0) return(array(code - 0x90, depth))
    if (code < 0xc0) return(text(code - 0xa0))
    switch(as.character(code),
      "192" = NULL, "194" = FALSE, "195" = TRUE,
      "196" = some(whole(1L)), "197" = some(whole(2L)), "198" = some(whole(4L)),
      "199" = time(whole(1L)), "202" = readBin(some(4L), "double", size = 4L, endian = "big"),
      "203" = readBin(some(8L), "double", size = 8L, endian = "big"),
      "204" = exact(whole(1L)), "205" = exact(whole(2L)), "206" = exact(whole(4L)), "207" = exact(whole(8L)),
      "208" = signed(1L), "209" = signed(2L), "210" = signed(4L), "211" = signed(8L),
      "214" = time(4L), "215" = time(8L),
      "217" = text(whole(1L)), "218" = text(whole(2L)), "219" = text(whole(4L)),
      "220" = array(whole(2L), depth), "221" = array(whole(4L), depth),
      "222" = object(whole(2L), depth), "223" = object(whole(4L), depth),
      stop("byte ", code, " in a document", call. = FALSE))
  }
  x <- value(0L)
  if (at <= size) stop(size - at + 1L, " bytes behind the value", call. = FALSE)
  x
}

kind_of <- function(v) {
  if (is.null(v)) "null"
  else if (inherits(v, "POSIXct")) "time"
  else if (is.raw(v) || length(v) != 1L || is.list(v)) "other"
  else if (is.numeric(v)) "number"
  else typeof(v)
}

# An array: scalars of one kind as a vector, equal objects as a data frame, or a list.
simplify <- function(list) {
  if (length(list) == 0L) return(list)
  kinds <- unique(vapply(list, kind_of, ""))
  known <- setdiff(kinds, "null")
  if (length(known) == 1L && known %in% c("number", "logical", "character", "time")) {
    missing <- vapply(list, is.null, NA)
    list[missing] <- list(NA)
    return(if (known == "time") do.call(c, lapply(list, as.POSIXct, tz = "UTC", origin = "1970-01-01")) else unlist(list))
  }
  if (identical(kinds, "other") && all(vapply(list, is_row, NA))) {
    columns <- names(list[[1L]])
    if (length(columns) > 0L && all(vapply(list, function(row) identical(names(row), columns), NA))) {
      data <- lapply(structure(columns, names = columns), function(name) simplify(lapply(list, `[[`, name)))
      flat <- all(vapply(data, function(column) is.atomic(column) && length(column) == length(list), NA))
      if (flat) return(structure(data, row.names = .set_row_names(length(list)), class = "data.frame"))
    }
  }
  list
}

is_row <- function(v) is.list(v) && !is.data.frame(v) && !is.null(names(v)) && !anyDuplicated(names(v))

# ---- calls

fail <- function(name, message) {
  stop(structure(class = c(name, "turnstoneError", "error", "condition"), list(message = message, call = NULL)))
}

call_host <- function(name, args) {
  document <- tryCatch(encode(args), error = function(e) fail("TypeError", paste0(name, ": argument ", conditionMessage(e))))
  if (length(document) > max_bytes) fail("ValueError", paste0(name, ": the arguments are too large: at most ", max_bytes, " bytes can be sent"))
  id <- 0
  on.exit(.C(native$done, id))
  id <- .C(native$id, id)[[1L]]
  if (id == 0) fail("CallError", paste0(name, ": a forked child cannot call functions of the host: call in the parent, and pass the result on"))
  if (id == -1) fail("CallError", paste0(name, ": 32 calls are open already, one in the other"))
  if (id == -2) fail("CallError", paste0(name, ": the session is ending"))
  .C(native$send, id, name, document, as.double(length(document)))
  got <- .C(native$wait, id, 0L, 0)
  if (got[[2L]] == 2L) fail("CallError", paste0(name, ": the session is ending"))
  document <- if (got[[3L]] > 0) .C(native$take, id, got[[3L]], raw(got[[3L]]))[[3L]] else raw()
  result <- tryCatch(decode(document), error = function(e) fail("CallError", paste0(name, ": the result cannot be read: ", conditionMessage(e))))
  if (got[[2L]] == 1L) fail(as.character(result[["name"]]), as.character(result[["message"]]))
  result
}

# ---- the environment

offered <- new.env(parent = emptyenv())

make <- function(entry) {
  true <- entry$name
  properties <- entry$params$properties
  any <- is.null(properties)
  required <- as.character(unlist(entry$params$required))
  parameters <- c(intersect(names(properties), required), setdiff(names(properties), required))
  run <- function(frame) {
    if (any) return(call_host(true, eval(quote(list(...)), frame)))
    given <- Filter(function(n) !eval(call("missing", as.name(n)), frame), parameters)
    call_host(true, structure(lapply(given, function(n) get(n, envir = frame, inherits = FALSE)), names = given))
  }
  f <- function() NULL
  formals(f) <- if (any) alist(... = ) else structure(rep(alist(x = ), length(parameters)), names = parameters)
  body(f) <- as.call(list(run, quote(environment()))) # no parameter can hide it
  environment(f) <- baseenv()
  structure(f, class = "turnstoneFunction", turnstone = entry)
}

words <- function(schema) {
  kind <- paste(as.character(unlist(schema$type)), collapse = " or ")
  paste0(if (nzchar(kind)) kind else "anything", if (!is.null(schema$description)) paste0(". ", schema$description))
}

print_function <- function(x, ...) {
  entry <- attr(x, "turnstone")
  properties <- entry$params$properties
  required <- as.character(unlist(entry$params$required))
  shown <- vapply(names(formals(x)), function(n) if (n == "..." || n %in% required) n else paste0("[", n, "]"), "")
  writeLines(c(paste0("turnstone$", entry$name, "(", paste(shown, collapse = ", "), ")"), entry$doc))
  for (n in names(properties)) writeLines(paste0("  ", n, ": ", words(properties[[n]])))
  invisible(x)
}

# The functions are in the environment `turnstone` on the search path, once there are some.
refresh <- function() {
  size <- .C(native$functions, 0, raw(1L))[[1L]]
  entries <- if (size > 0) as_entries(.C(native$functions, size, raw(size))[[2L]]) else list()
  rm(list = ls(offered, all.names = TRUE), envir = offered)
  for (entry in entries) assign(entry$name, make(entry), envir = offered)
  if (length(entries) > 0L && !"turnstone" %in% search()) {
    registerS3method("print", "turnstoneFunction", print_function, envir = baseenv())
    attached <- attach(NULL, pos = length(search()), name = "turnstone", warn.conflicts = FALSE)
    assign("turnstone", offered, envir = attached)
  }
  invisible()
}

# The entries of the list, which may look like a data frame.
as_entries <- function(document) {
  entries <- decode(document)
  if (is.data.frame(entries)) lapply(seq_len(nrow(entries)), function(i) lapply(entries, `[[`, i)) else entries
}

refresh
