//go:build linux

package programs

import "testing"

func TestShells(t *testing.T) {
	t.Parallel()
	runPrograms(t, []programTest{{
		name:  "bash read with a time limit",
		start: runShell("read -t 30 -p 'Name? ' x; echo answer $x"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name:  "bash read of one key",
		start: runShell("read -n1 -p 'Sure? ' x; echo; echo answer $x"),
		asks:  "Sure?", steps: []step{keys("y", "answer y")},
	}, {
		name:  "bash read of one key with a time limit",
		start: runShell("read -n1 -t 30 -p 'Sure? ' x; echo; echo answer $x"),
		asks:  "Sure?", steps: []step{answer("y", "answer y")},
	}, {
		name:  "bash read in a loop of short time limits",
		start: runShell("echo Sure?; until read -t .2 x; do :; done; echo answer $x"),
		asks:  "Sure?", steps: []step{answer("y", "answer y")},
	}, {
		name:  "bash read of a secret",
		start: runShell("read -s -p 'Password: ' x; echo; echo length ${#x}"),
		asks:  "Password:", steps: []step{answer("geheim", "length 6")},
	}, {
		name:  "bash select",
		start: runShell("select x in red green; do echo answer $x; break; done"),
		asks:  "2) green", steps: []step{answer("2", "answer green")},
	}, {
		name:  "interactive bash",
		start: runProgram("env", "PS1=sh> ", "bash", "--norc", "-i"),
		asks:  "sh>", steps: []step{answer("echo a$((1+1))b", "a2b"), keys("echo c<BS>d$((2+2))<Enter>", "d4"), answer("exit", "status 0")},
	}, {
		name: "interactive bash on a dumb terminal", dumb: true,
		start: runProgram("env", "PS1=sh> ", "bash", "--norc", "-i"),
		asks:  "sh>", steps: []step{answer("echo a$((1+1))b", "a2b"), answer("exit", "status 0")},
	}, {
		name:  "shell of pty.spawn",
		start: "import pty; print('status', pty.spawn(['env', 'PS1=sh> ', 'sh', '-i']))",
		asks:  "sh>", steps: []step{answer("echo a$((1+1))b", "a2b"), answer("exit", "status 0")},
	}, {
		name: "shell in tmux", needs: []string{"tmux"}, quiet: true,
		start: runProgram("tmux", "-L", "programs", "-f", "/dev/null", "new", "sh"),
		asks:  "[0]", steps: []step{keys("echo a$((1+1))b<Enter>", "a2b"), keys("exit<Enter>", "status 0")},
	}, {
		name: "rlwrap", needs: []string{"rlwrap"},
		start: runProgram("rlwrap", "sh", "-c", "printf 'Name? '; read x; echo answer $x"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "ssh-keygen -p", needs: []string{"ssh-keygen"},
		start: runShell("ssh-keygen -q -t ed25519 -N oldpass -f key && ssh-keygen -p -f key"),
		asks:  "old passphrase", steps: []step{answer("oldpass", "new passphrase"), answer("newpass", "again"), answer("newpass", "has been saved")},
	}, {
		name: "openssl, a passphrase twice", needs: []string{"openssl"},
		start: runProgram("openssl", "genpkey", "-algorithm", "ED25519", "-aes256", "-out", "key.pem"),
		asks:  "pass phrase", steps: []step{answer("geheim", "Verifying"), answer("geheim", "status 0")},
	}, {
		name: "git add -p", needs: []string{"git"},
		start: runShell("git init -q . && echo one >f && git add f && echo two >>f && git add -p f && git diff --cached | grep -c ^+[ot]"),
		asks:  "Stage this hunk", steps: []step{answer("y", "2")},
	}})
}

func TestInterpreters(t *testing.T) {
	t.Parallel()
	runPrograms(t, []programTest{{
		name:  "IPython",
		start: runProgram("{python}", "-m", "IPython", "--no-banner", "--no-confirm-exit"),
		asks:  "In [", steps: []step{answer("6*7", "42"), keys("8*8<Enter>", "64"), answer("exit()", "status 0")},
	}, {
		name:  "IPython.embed in the session's own process",
		start: "import IPython; value = 21; IPython.embed(banner1='', colors='nocolor', confirm_exit=False); print('left')",
		asks:  "In [", steps: []step{answer("value * 2", "42"), answer("exit()", "left")},
	}, {
		name:  "ptpython",
		start: runProgram("{python}", "-m", "ptpython", "--config-file", "/dev/null"),
		asks:  ">>>", steps: []step{answer("6*7", "42"), keys("<C-d>", "exit?"), keys("y", "status 0")},
	}, {
		name: "Python 3.13", needs: []string{"python3.13"},
		start: runProgram("env", "-u", "PYTHON_BASIC_REPL", "{python3.13}", "-q"),
		asks:  ">>>", steps: []step{answer("6*7", "42"), keys("8*9<Left><BS>-<Right><Enter>", "-1"), answer("exit()", "status 0")},
	}, {
		name: "Python 3.13 on a dumb terminal", needs: []string{"python3.13"}, dumb: true,
		start: runProgram("env", "-u", "PYTHON_BASIC_REPL", "{python3.13}", "-q"),
		asks:  ">>>", steps: []step{answer("6*7", "42"), answer("exit()", "status 0")},
	}, {
		name:  "pdb of a child",
		start: runPython("import pdb\nvalue = 42\npdb.set_trace()\nprint('end')"),
		asks:  "(Pdb)", steps: []step{answer("p value", "42"), answer("c", "end")},
	}, {
		name: "gdb", needs: []string{"gdb"},
		start: runProgram("gdb", "-q", "-nx"),
		asks:  "(gdb)", steps: []step{answer("print 6*7", "= 42"), answer("quit", "status 0")},
	}, {
		name: "gdb, completed by Tab", needs: []string{"gdb"},
		start: runProgram("gdb", "-q", "-nx"),
		asks:  "(gdb)", steps: []step{keys("pri<Tab> 6*7<Enter>", "= 42"), answer("quit", "status 0")},
	}, {
		name: "sqlite3", needs: []string{"sqlite3"},
		start: runProgram("sqlite3"),
		asks:  "sqlite>", steps: []step{answer("select 6*7;", "42"), answer(".quit", "status 0")},
	}, {
		name: "R of a child", needs: []string{"R"},
		start: runProgram("R", "-q", "--vanilla"),
		asks:  ">", steps: []step{answer("6*7", "[1] 42"), answer("x <- readline('Name? '); x", "Name?"), answer("ada", `"ada"`), answer("q()", "status 0")},
	}, {
		name: "R menu of a child", needs: []string{"R"},
		start: runProgram("R", "-q", "--vanilla"),
		asks:  ">", steps: []step{answer("menu(c('red', 'green'))", "Selection:"), answer("2", "[1] 2"), answer("q()", "status 0")},
	}, {
		name: "R browser", lang: "r",
		start: "f <- function(value) { browser(); cat('left', value, '\\n') }\nf(42)",
		asks:  "Browse[1]>", steps: []step{answer("value / 2", "21"), answer("c", "left 42")},
	}, {
		name: "R readline", lang: "r",
		start: "cat('answer', readline('Name? '), '\\n')",
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "program of an R session", lang: "r",
		start: "cat('status', system(\"bash -c 'read -t 30 -n1 -p Sure? x; echo; echo answer $x'\"), '\\n')",
		asks:  "Sure?", steps: []step{keys("y", "answer y")},
	}, {
		name: "editor of an R session", lang: "r", needs: []string{"vim"},
		start: "cat('status', system('vim -u NONE note.txt'), readLines('note.txt'), '\\n')",
		asks:  "note.txt", steps: []step{keys("ihello<Esc>", "hello"), keys(":wq<Enter>", "status 0 hello")},
	}})
}

func TestFullScreenPrograms(t *testing.T) {
	t.Parallel()
	runPrograms(t, []programTest{{
		name:  "curses getch",
		start: runPython("import curses\ndef ask(s):\n s.addstr(3, 5, 'press a key'); s.refresh()\n return s.getch()\nprint('answer', curses.wrapper(ask))"),
		asks:  "press a key", steps: []step{keys("<Up>", "answer 259")},
	}, {
		name:  "curses getch with a time limit",
		start: runPython("import curses\ndef ask(s):\n s.timeout(100); s.addstr(3, 5, 'press a key')\n while True:\n  key = s.getch()\n  if key >= 0: return key\nprint('answer', curses.wrapper(ask))"),
		asks:  "press a key", steps: []step{keys("z", "answer 122")},
	}, {
		name:  "curses halfdelay",
		start: runPython("import curses\ndef ask(s):\n curses.halfdelay(5); s.addstr(3, 5, 'press a key')\n while True:\n  key = s.getch()\n  if key >= 0: return key\nprint('answer', curses.wrapper(ask))"),
		asks:  "press a key", steps: []step{keys("<F5>", "answer 269")},
	}, {
		name: "curses nodelay", quiet: true,
		start: runPython("import curses, time\ndef ask(s):\n s.nodelay(True); s.addstr(3, 5, 'press a key')\n while True:\n  key = s.getch()\n  if key >= 0: return key\n  time.sleep(.05)\nprint('answer', curses.wrapper(ask))"),
		asks:  "press a key", steps: []step{keys("y", "answer 121")},
	}, {
		name: "vim", needs: []string{"vim"},
		start: runProgram("vim", "-u", "NONE", "note.txt") + "\nprint(open('note.txt').read())",
		asks:  "note.txt", steps: []step{keys("ihello<Esc>", "hello"), keys("yyp:s/hello/bye/<Enter>", "bye"), keys(":wq<Enter>", "hello\nbye")},
	}, {
		name: "nano", needs: []string{"nano"},
		start: runProgram("nano", "-I", "note.txt") + "\nprint(open('note.txt').read())",
		asks:  "note.txt", steps: []step{keys("hello", "hello"), keys("<C-x>", "Save modified"), keys("y", "File Name to Write"), keys("<Enter>", "status 0\nhello")},
	}, {
		name: "less", needs: []string{"less"},
		start: runShell("seq 1000 1500 | less"),
		asks:  "1038", steps: []step{keys("<Space>", "1077"), keys("/1400<Enter>", "1438"), keys("q", "status 0")},
	}, {
		name: "less on a dumb terminal", needs: []string{"less"}, dumb: true,
		start: runShell("seq 1000 1500 | less -d"),
		asks:  "1038", steps: []step{keys("<Space>", "1077"), keys("q", "status 0")},
	}, {
		name: "top", needs: []string{"top"},
		start: runProgram("top", "-d", "3"),
		asks:  "PID", steps: []step{keys("h", "Help for Interactive Commands"), keys("<Esc>", "PID"), keys("q", "status 0")},
	}, {
		name: "htop", needs: []string{"htop"},
		start: runProgram("htop"),
		asks:  "PID", steps: []step{keys("<F1>", "htop"), keys("<Esc>", "PID"), keys("q", "status 0")},
	}, {
		name: "dialog yesno", needs: []string{"dialog"},
		start: runProgram("dialog", "--yesno", "Really?", "6", "20"),
		asks:  "Really?", steps: []step{keys("<Tab><Enter>", "status 1")},
	}, {
		name: "dialog with a time limit", needs: []string{"dialog"},
		start: runProgram("dialog", "--timeout", "60", "--menu", "Colour?", "10", "30", "3", "1", "red", "2", "green"),
		asks:  "green", steps: []step{keys("<Down>", "green"), keys("<Enter>", "status 0")},
	}, {
		name: "whiptail", needs: []string{"whiptail"},
		start: runShell("x=$(whiptail --inputbox 'Name?' 10 30 3>&1 1>&2 2>&3); echo answer $x"),
		asks:  "Name?", steps: []step{keys("ada", "ada"), keys("<Enter>", "answer ada")},
	}, {
		name: "fzf", needs: []string{"fzf"},
		start: runShell("echo answer $(seq 100 | fzf)"),
		asks:  "100/100", steps: []step{keys("77", "1/100"), keys("<Enter>", "answer 77")},
	}, {
		name: "fzf, typed at once", needs: []string{"fzf"},
		start: runShell("echo answer $(seq 100 | fzf)"),
		asks:  "100/100", steps: []step{keys("77<Enter>", "answer 77")},
	}, {
		name: "debconf dialog", needs: []string{"debconf", "whiptail"},
		start: runShell(debconfScript),
		asks:  "Colour", steps: []step{keys("blue", "blue"), keys("<Enter>", "answer blue")},
	}, {
		name: "git commit with an editor", needs: []string{"git", "vim"},
		start: runShell("git init -q . && git config user.email a@example.org && git config user.name a && git commit --allow-empty && git --no-pager log --format='answer %s'"),
		asks:  "COMMIT_EDITMSG", steps: []step{keys("ihello<Esc>", "hello"), keys(":wq<Enter>", "answer hello")},
	}})
}

// debconfScript asks one question as the installation of a package does, with a database of its own.
const debconfScript = `cat >debconf.conf <<'END'
Config: configdb
Templates: templatedb

Name: configdb
Driver: File
Filename: config.dat

Name: templatedb
Driver: File
Filename: templates.dat
END
cat >questions.templates <<'END'
Template: demo/colour
Type: string
Description: Colour of the demo
END
cat >questions <<'END'
#!/bin/sh
. /usr/share/debconf/confmodule
db_input critical demo/colour
db_go
db_get demo/colour
echo "answer $RET" >&2
END
chmod +x questions
export DEBCONF_SYSTEMRC=debconf.conf DEBIAN_FRONTEND=dialog DEBIAN_PRIORITY=low
./questions`
