"""Measures requests, one at a time, through repl's kernel and ipykernel, which alternate. It prints medians in ms."""

import statistics
import sys
import time

from kernels import Kernel


def once(k, code):
    began = time.perf_counter()
    k.run(code)  # to the reply and to idle
    return (time.perf_counter() - began) * 1000


def interrupt(k):
    msg_id = k.kc.execute("print(1, flush=True)\nimport time\nwhile True: time.sleep(0.001)")
    k.next("stream", msg_id)
    began = time.perf_counter()
    k.km.interrupt_kernel()
    k.ask(msg_id)
    spent = (time.perf_counter() - began) * 1000
    k.outputs(msg_id)
    return spent


def start(name):
    began = time.perf_counter()
    k = Kernel(name)
    return k, (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    rounds = int(sys.argv[1])
    kernels, times = {}, {}
    start("turnstone-python")[0].close()  # starts the daemon
    for name in ("turnstone-python", "python3"):
        kernels[name], times[name, "start"] = start(name)
    for _ in range(20):
        for k in kernels.values():
            k.run("x=1")
    for what, n, measure in (("x=1", rounds, lambda k: once(k, "x=1")), ("interrupt", 10, interrupt)):
        for name in kernels:
            times[name, what] = []
        for _ in range(n):
            for name, k in kernels.items():
                times[name, what].append(measure(k))
    for k in kernels.values():
        k.close()
    for what in ("start", "x=1", "interrupt"):
        ours, theirs = (times[n, what] if what == "start" else statistics.median(times[n, what]) for n in kernels)
        print(what, round(ours, 2), round(theirs, 2))
