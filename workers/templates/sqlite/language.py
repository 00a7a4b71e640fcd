"""The language of the worker: SQL, using the SQLite that comes with Python.

Its own commands begin with a dot, as in the shell of SQLite: .open FILE, .print TEXT, .read FILE,
.schema, .shell COMMAND, .tables, .exit [STATUS]. The database is in memory until one is opened.
"""

import os
import re
import sqlite3

KEYWORDS = """ALTER AND AS BEGIN BETWEEN BY CASE COMMIT COUNT CREATE DELETE DESC DISTINCT DROP ELSE END EXISTS
EXPLAIN FROM GROUP HAVING IN INDEX INNER INSERT INTO IS JOIN LEFT LIKE LIMIT NOT NULL ON OR ORDER PRAGMA
PRIMARY KEY REPLACE ROLLBACK SELECT SET TABLE THEN UNION UPDATE VALUES VIEW WHEN WHERE WITH""".split()

STEPS = 10000  # of SQLite's virtual machine between two checks for interrupts


class Language:
    name = "sqlite"
    version = sqlite3.sqlite_version

    def __init__(self, ask):
        self.open(":memory:")

    def open(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.set_progress_handler(lambda: 0, STEPS)  # Python runs signal handlers here

    def run(self, text):
        """Runs statements, and lines with dot commands between them."""
        statement = ""
        for line in text.splitlines(True):
            if not statement.strip() and line.startswith("."):
                self.command(*line[1:].strip().partition(" ")[::2])
                continue
            statement += line
            if sqlite3.complete_statement(statement):
                self.execute(statement)
                statement = ""
        if statement.strip():
            self.execute(statement)

    def execute(self, statements):
        for statement in split(statements):
            cursor = self.db.execute(statement)
            if cursor.description:
                show([d[0] for d in cursor.description], cursor)

    def command(self, name, rest):
        if name == "print":
            print(unquote(rest))
        elif name == "shell":
            os.system(unquote(rest))
        elif name == "open":
            self.open(unquote(rest))
        elif name == "read":
            with open(unquote(rest), encoding="utf-8") as file:
                self.run(file.read())
        elif name == "tables":
            print("\n".join(self.tables()))
        elif name == "schema":
            for (sql,) in self.db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
                print(sql + ";")
        elif name in ("exit", "quit"):
            raise SystemExit(int(rest or 0))
        else:
            raise ValueError("there is no command .%s: there is .open .print .read .schema .shell .tables .exit" % name)

    def tables(self):
        return [row[0] for row in self.db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")]

    def words(self, error):
        return "interrupted\n" if isinstance(error, KeyboardInterrupt) else "%s: %s\n" % (type(error).__name__, error)

    def query(self, kind, text, cursor):
        if kind == "parse":
            return {"status": self.judge(text)}
        if kind == "variables":
            return {"status": "ok", "variables": [{"name": t, "type": "table"} for t in self.tables()[:200]] or None}
        before = text.encode()[:cursor].decode("utf-8", "replace")
        word = re.search(r"\w*$", before).group()
        names = KEYWORDS + self.tables()
        matches = sorted(n for n in names if word and n.lower().startswith(word.lower()))[:200]
        return {"status": "ok", "start": cursor - len(word.encode()), "matches": matches or None}

    def judge(self, text):
        if text.lstrip().startswith(".") or not text.strip():
            return "complete"
        if not sqlite3.complete_statement(text):
            return "incomplete"
        try:
            for statement in split(text):
                self.db.execute("EXPLAIN " + statement)
        except sqlite3.Error as e:
            if "syntax error" in str(e):
                return "invalid"
        return "complete"


def split(text):
    """Yields the single statements of a text."""
    start = 0
    for end in (m.end() for m in re.finditer(";", text)):
        if sqlite3.complete_statement(text[start:end]):
            yield text[start:end]
            start = end
    if text[start:].strip():
        yield text[start:]


def unquote(text):
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def show(names, rows):
    """Prints a table. Rows after the first thousand are only counted."""
    table, more = [names], 0
    for row in rows:
        if len(table) > 1000:
            more += 1
        else:
            table.append(["NULL" if v is None else str(v) for v in row])
    widths = [max(len(row[i]) for row in table) for i in range(len(names))]
    for row in table:
        print("  ".join(v.ljust(w) for v, w in zip(row, widths)).rstrip())
    if more:
        print("(and %d rows more)" % more)
