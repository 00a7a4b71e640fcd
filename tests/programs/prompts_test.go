//go:build linux

package programs

import "testing"

func TestPythonPrompts(t *testing.T) {
	t.Parallel()
	runPrograms(t, []programTest{{
		name:  "questionary text",
		start: "import questionary; print('answer', questionary.text('Name?').ask())",
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "questionary text on a dumb terminal", dumb: true,
		start: "import questionary; print('answer', questionary.text('Name?').ask())",
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name:  "questionary select",
		start: "import questionary; print('answer', questionary.select('Colour?', choices=['red', 'green', 'blue']).ask())",
		asks:  "green", steps: []step{keys("<Down><Down><Up><Enter>", "answer green")},
	}, {
		name:  "questionary select, where a plain answer presses no Enter",
		start: "import questionary; print('answer', questionary.select('Colour?', choices=['red', 'green', 'blue']).ask())",
		asks:  "green", steps: []step{answer("blue", "blue"), keys("<C-c>", "answer None")},
	}, {
		name:  "questionary confirm",
		start: "import questionary; print('answer', questionary.confirm('Sure?').ask())",
		asks:  "Sure?", steps: []step{keys("y", "answer True")},
	}, {
		name:  "questionary checkbox",
		start: "import questionary; print('answer', questionary.checkbox('Colours?', choices=['red', 'green', 'blue']).ask())",
		asks:  "green", steps: []step{keys("<Space><Down><Down><Space><Enter>", "answer ['red', 'blue']")},
	}, {
		name:  "questionary password",
		start: "import questionary; print('length', len(questionary.password('Password?').ask()))",
		asks:  "Password?", steps: []step{answer("geheim", "length 6")},
	}, {
		name:  "questionary autocomplete",
		start: "import questionary; print('answer', questionary.autocomplete('Fruit?', choices=['apple', 'pear']).ask())",
		asks:  "Fruit?", steps: []step{answer("pear", "answer pear")},
	}, {
		name:  "prompt_toolkit in the session's own process",
		start: "import prompt_toolkit; print('answer', prompt_toolkit.prompt('pt> '))",
		asks:  "pt>", steps: []step{answer("hello", "answer hello")},
	}, {
		name:  "prompt_toolkit, edited by keys",
		start: runPython("import prompt_toolkit; print('answer', prompt_toolkit.prompt('pt> '))"),
		asks:  "pt>", steps: []step{keys("helo<Left>l<End>!<Home>x<Del><BS>o<Enter>", "answer oello!")},
	}, {
		name: "prompt_toolkit on a dumb terminal", dumb: true,
		start: "import prompt_toolkit; print('answer', prompt_toolkit.prompt('pt> '))",
		asks:  "pt>", steps: []step{answer("hello", "answer hello")},
	}, {
		name:  "prompt_toolkit dialog",
		start: runPython("from prompt_toolkit.shortcuts import yes_no_dialog; print('answer', yes_no_dialog('Title', 'Really?').run())"),
		asks:  "Really?", steps: []step{keys("<Tab><Enter>", "answer False")},
	}, {
		name:  "InquirerPy select",
		start: "from InquirerPy import inquirer; print('answer', inquirer.select(message='Colour?', choices=['red', 'green', 'blue']).execute())",
		asks:  "green", steps: []step{keys("<Down><Enter>", "answer green")},
	}, {
		name:  "InquirerPy text",
		start: "from InquirerPy import inquirer; print('answer', inquirer.text(message='Name?').execute())",
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name:  "InquirerPy fuzzy",
		start: "from InquirerPy import inquirer; print('answer', inquirer.fuzzy(message='Colour?', choices=['red', 'green', 'blue']).execute())",
		asks:  "green", steps: []step{keys("gre", "1/3"), keys("<Enter>", "answer green")},
	}, {
		name:  "click.getchar",
		start: "import click; print('answer', repr(click.getchar()))",
		steps: []step{answer("k", "answer 'k'")},
	}, {
		name:  "click.confirm",
		start: "import click; print('answer', click.confirm('Sure?'))",
		asks:  "Sure?", steps: []step{answer("y", "answer True")},
	}, {
		name:  "click.pause",
		start: runPython("import click; click.pause(); print('answer')"),
		asks:  "Press any key", steps: []step{keys("<Space>", "status 0")},
	}, {
		name:  "click.prompt",
		start: runPython("import click; print('answer', click.prompt('Number', type=int))"),
		asks:  "Number", steps: []step{answer("many", "not a valid integer"), answer("42", "answer 42")},
	}, {
		name:  "getpass of a child",
		start: runPython("import getpass; print('length', len(getpass.getpass('Password: ')))"),
		asks:  "Password:", steps: []step{answer("geheim", "length 6")},
	}, {
		name:  "rich prompt",
		start: runPython("from rich.prompt import Prompt; print('answer', Prompt.ask('Colour', choices=['red', 'green']))"),
		asks:  "Colour", steps: []step{answer("pink", "Please select"), answer("green", "answer green")},
	}, {
		name: "textual application",
		start: runPython("from textual.app import App\nfrom textual.widgets import Input\n" +
			"class Form(App):\n def compose(self): yield Input(placeholder='Your name')\n" +
			" def on_input_submitted(self, event): self.exit(event.value)\nprint('answer', Form().run())"),
		asks: "our name", steps: []step{keys("ada", "ada"), keys("<Enter>", "answer ada")},
	}, {
		name:  "select loop of the session's own code",
		start: "import select, sys\nprint('Name?')\nwhile not select.select([sys.stdin], [], [], .05)[0]: pass\nprint('answer', sys.stdin.readline())",
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name:  "reader with VMIN 0 and VTIME",
		start: runShell("stty -icanon min 0 time 5; echo ready; {python} -c 'import os\nwhile not (key := os.read(0, 1)): pass\nprint(\"answer\", key)'; stty sane"),
		asks:  "ready", steps: []step{keys("z", "answer b'z'")},
	}, {
		name:  "reader of two raw keys",
		start: "import os, termios, tty\nbefore = termios.tcgetattr(0)\ntry:\n    tty.setraw(0); one = os.read(0, 1); two = os.read(0, 1)\nfinally:\n    termios.tcsetattr(0, termios.TCSADRAIN, before)\nprint('answer', one, two)",
		steps: []step{answer("k", ""), answer("j", "answer b'k' b'j'")},
	}})
}

func TestNodePrompts(t *testing.T) {
	t.Parallel()
	node := []string{"node"}
	runPrograms(t, []programTest{{
		name: "readline question", needs: node,
		start: runNode("const r = require('readline').createInterface({input: process.stdin, output: process.stdout}); r.question('Name? ', x => { console.log('answer', x); r.close() })"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "readline question on a dumb terminal", needs: node, dumb: true,
		start: runNode("const r = require('readline').createInterface({input: process.stdin, output: process.stdout}); r.question('Name? ', x => { console.log('answer', x); r.close() })"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "readline question beside a timer", needs: node,
		start: runNode("setInterval(() => {}, 100); require('readline/promises').createInterface({input: process.stdin, output: process.stdout}).question('Name? ').then(x => { console.log('answer', x); process.exit() })"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "node REPL", needs: node,
		start: runProgram("node", "-i"),
		asks:  ">", steps: []step{answer("6*7", "42"), keys("<C-d>", "status 0")},
	}, {
		name: "@inquirer input", needs: node,
		start: runNode("import('{inquirer}').then(m => m.input({message: 'Name?'})).then(x => console.log('answer', x))"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "@inquirer select", needs: node,
		start: runNode("import('{inquirer}').then(m => m.select({message: 'Colour?', choices: ['red', 'green', 'blue']})).then(x => console.log('answer', x))"),
		asks:  "green", steps: []step{keys("<Down><Enter>", "answer green")},
	}, {
		name: "@inquirer checkbox", needs: node,
		start: runNode("import('{inquirer}').then(m => m.checkbox({message: 'Colours?', choices: ['red', 'green', 'blue']})).then(x => console.log('answer', x.join()))"),
		asks:  "green", steps: []step{keys("<Space><Down><Space><Enter>", "answer red,green")},
	}, {
		name: "@inquirer confirm", needs: node,
		start: runNode("import('{inquirer}').then(m => m.confirm({message: 'Sure?'})).then(x => console.log('answer', x))"),
		asks:  "Sure?", steps: []step{answer("n", "answer false")},
	}, {
		name: "@inquirer password", needs: node,
		start: runNode("import('{inquirer}').then(m => m.password({message: 'Password?', mask: true})).then(x => console.log('length', x.length))"),
		asks:  "Password?", steps: []step{answer("geheim", "length 6")},
	}, {
		name: "@clack text", needs: node,
		start: runNode("import('{clack}').then(m => m.text({message: 'Name?'})).then(x => console.log('answer', x))"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}, {
		name: "@clack select", needs: node,
		start: runNode("import('{clack}').then(m => m.select({message: 'Colour?', options: [{value: 'red'}, {value: 'green'}]})).then(x => console.log('answer', x))"),
		asks:  "green", steps: []step{keys("<Down><Enter>", "answer green")},
	}, {
		name: "@clack text after a spinner", needs: node,
		start: runNode("import('{clack}').then(async m => { const s = m.spinner(); s.start('working'); await new Promise(r => setTimeout(r, 1500)); s.stop('worked'); console.log('answer', await m.text({message: 'Name?'})) })"),
		asks:  "Name?", steps: []step{answer("ada", "answer ada")},
	}})
}

func TestCompiledPrompts(t *testing.T) {
	t.Parallel()
	goPrompt, rustPrompt := []string{"bin/goprompt"}, []string{"bin/rustprompt"}
	runPrograms(t, []programTest{{
		name: "bubbletea text field", needs: goPrompt,
		start: runProgram("{bin}/goprompt", "bubbletea"),
		asks:  "Name?", steps: []step{keys("ada", "ada"), keys("<Enter>", "answer: ada")},
	}, {
		name: "bubbletea text field, plain answer", needs: goPrompt,
		start: runProgram("{bin}/goprompt", "bubbletea"),
		asks:  "Name?", steps: []step{answer("ada", "answer: ada")},
	}, {
		name: "huh input", needs: goPrompt,
		start: runProgram("{bin}/goprompt", "huh-input"),
		asks:  "Name?", steps: []step{keys("ada<Enter>", "answer: ada")},
	}, {
		name: "huh select", needs: goPrompt,
		start: runProgram("{bin}/goprompt", "huh-select"),
		asks:  "green", steps: []step{keys("<Down><Enter>", "answer: green")},
	}, {
		name: "inquire text", needs: rustPrompt,
		start: runProgram("{bin}/rustprompt", "text"),
		asks:  "Name?", steps: []step{answer("ada", "answer: ada")},
	}, {
		name: "inquire select", needs: rustPrompt,
		start: runProgram("{bin}/rustprompt", "select"),
		asks:  "green", steps: []step{keys("<Down><Enter>", "answer: green")},
	}, {
		name: "dialoguer input", needs: rustPrompt,
		start: runProgram("{bin}/rustprompt", "input"),
		asks:  "Name", steps: []step{answer("ada", "answer: ada")},
	}, {
		name: "dialoguer select", needs: rustPrompt,
		start: runProgram("{bin}/rustprompt", "menu"),
		asks:  "green", steps: []step{keys("<Down><Enter>", "answer: green")},
	}})
}
