from turnstone_client import Session

with Session() as s:
    print(s.run("6 * 7").value)
