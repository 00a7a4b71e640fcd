import unittest

import jupyter_kernel_test as jkt


class Python(jkt.KernelTests):
    kernel_name = "turnstone-python"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('bad', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_generate_error = "raise ValueError('no')"
    code_execute_result = [
        {"code": "6*7", "result": "42"},
        {"code": "'a'*3", "result": "'aaa'"},
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))", "mime": "text/html"},
        {"code": "display({'image/svg+xml': '<svg/>', 'text/plain': 'a'}, raw=True)", "mime": "image/svg+xml"},
    ]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; print('x'); clear_output()"


class Welcome(jkt.IopubWelcomeTests):
    kernel_name = "turnstone-python"
    support_iopub_welcome = True


if __name__ == "__main__":
    unittest.main()
