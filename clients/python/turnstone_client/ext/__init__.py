"""Tools for agent frameworks that run a model's code in a session.

Each module needs only the framework that it is named after. A model's code runs in the session that you
pass, which must have a sandbox: see repl_tool() of each module.
"""
