import { Session } from "turnstone-client";

await using s = await Session.open();
console.log((await s.run("6 * 7")).value);
