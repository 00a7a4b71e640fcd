"""Programs that use the type of an event. A type checker reads this file; nobody runs it.

Each access that must be an error has a comment that ignores it: the checker refuses such a comment
that ignores nothing.
"""

from typing import List

from turnstone_client import wire


def summarize(events: List[wire.Event]) -> str:
    said = ""
    for event in events:
        if event["type"] == "text":
            said += event.get("text", "") + event.get("stream", "stdout")
            event.get("outcome").upper()  # pyright: ignore[reportOptionalMemberAccess]
        elif event["type"] == "display":
            for mime, data in event.get("data", {}).items():
                said += mime + (data if isinstance(data, str) else data["base64"])
            for blob in event.get("omitted", {}).values():
                said += str(blob["bytes"])
        elif event["type"] == "turn_ended":
            said += event.get("outcome", "ok") + str(event.get("elapsed_ms", 0) + event.get("exit_code", 0))
            event["text"]  # pyright: ignore[reportGeneralTypeIssues]
        elif event["type"] == "gap":
            said += str(event.get("from", 0) + event.get("to", 0))
        elif event["type"] == "limit":
            event.get("step") == "exploded"  # pyright: ignore[reportUnnecessaryComparison, reportUnusedExpression]
        elif event["type"] == "exploded":  # pyright: ignore[reportUnnecessaryComparison]
            pass
        event["text"]  # pyright: ignore[reportGeneralTypeIssues, reportTypedDictNotRequiredAccess]
    return said
