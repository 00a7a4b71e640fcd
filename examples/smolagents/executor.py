"""smolagents on a session: the code of a CodeAgent keeps its variables, runs in a sandbox, and shows its output.

    pip install "turnstone-client[repl]" smolagents
    python executor.py "How many primes are below 10000?"

The agent's tools run in the session, too: smolagents sends their source, so they must not need secrets.
"""

import json
import sys

from smolagents import CodeAgent, InferenceClientModel
from smolagents.local_python_executor import CodeOutput, PythonExecutor
from smolagents.remote_executors import get_tools_definition_code
from turnstone_client import Session

# The answer leaves the session as JSON, because its class may not exist in this program. FinalAnswer is
# no Exception, so that code with "except Exception" does not swallow it.
FINAL_ANSWER = """
class FinalAnswer(BaseException):
    pass

def final_answer(answer=None):
    global _final_answer
    _final_answer = answer
    raise FinalAnswer()
"""
READ_ANSWER = "import json as _json; print(_json.dumps(_final_answer, default=str))"


class TurnstoneExecutor(PythonExecutor):
    """Runs the code of one agent in a Session. The session belongs to the caller."""

    def __init__(self, session, timeout=60.0):
        self.session = session
        self.timeout = timeout

    def send_tools(self, tools):
        sent = {name: tool for name, tool in tools.items() if name != "final_answer"}
        self.session.run(get_tools_definition_code(sent) + FINAL_ANSWER).check()

    def send_variables(self, variables):
        if variables:
            self.session.run("import json as _json; globals().update(_json.loads(%r))" % json.dumps(variables)).check()

    def __call__(self, code):
        result = self.session.run(code, timeout=self.timeout)
        if result.error is None:
            return CodeOutput(output=result.value, logs=result.text, is_final_answer=False)
        if result.error.name.endswith("FinalAnswer"):
            return CodeOutput(output=self.session.run(READ_ANSWER).check().json(), logs=result.text, is_final_answer=True)
        raise RuntimeError(result.render())

    def cleanup(self):
        """Do nothing: the caller closes the session."""


def ask(model, question, tools=()):
    with Session(sandbox="workspace") as session:
        agent = CodeAgent(tools=list(tools), model=model, executor=TurnstoneExecutor(session), verbosity_level=0)
        return agent.run(question)


if __name__ == "__main__":
    print(ask(InferenceClientModel(), sys.argv[1]))
