import unittest

import jupyter_kernel_test as jkt


class R(jkt.KernelTests):
    kernel_name = "turnstone-r"
    language_name = "R"
    file_extension = ".R"
    code_hello_world = "cat('hello, world\\n')"
    code_stderr = "message('bad')"
    completion_samples = [{"text": "x <- nlev", "matches": {"nlevels"}}]
    complete_code_samples = ["1", "f <- function(x) {x*2}"]
    incomplete_code_samples = ["f <- function(x) {x*2", "print('hello"]
    invalid_code_samples = ["a b", "f <- function(x) {{}"[:-2] + ")"]
    code_generate_error = "stop('no')"
    code_execute_result = [
        {"code": "6*7", "result": "[1] 42"},
        {"code": "'abc'", "result": '[1] "abc"'},
    ]
    code_display_data = [{"code": "plot(1:3)", "mime": "image/png"}]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "mean"


class Welcome(jkt.IopubWelcomeTests):
    kernel_name = "turnstone-r"
    support_iopub_welcome = True


if __name__ == "__main__":
    unittest.main()
