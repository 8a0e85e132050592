// Starts the page: the session first, then the view that the address names.

import { currentCluster, readSession, session } from "./api.js";
import { startKeys } from "./keys.js";
import { html, render, useEffect, useState } from "./lib.js";
import { close, open, overview } from "./live.js";
import { Empty, Failure, Page } from "./parts.js";
import { address, go, route, startRouter } from "./router.js";
import { Shell } from "./shell.js";
import { useStore } from "./store.js";
import "./theme.js";
import { Clients } from "./views/clients.js";
import { Group } from "./views/group.js";
import { Groups } from "./views/groups.js";
import { Loads } from "./views/loads.js";
import { Login } from "./views/login.js";
import { Messages } from "./views/messages.js";
import { Mirrors } from "./views/mirrors.js";
import { Overview } from "./views/overview.js";
import { Partition } from "./views/partition.js";
import { Settings } from "./views/settings.js";
import { Topic } from "./views/topic.js";
import { Topics } from "./views/topics.js";

function view([section, name, more, partition, ...rest]) {
  const only = (number) => [name, more, partition, ...rest].filter((part) => part !== undefined).length === number;
  const lists = { overview: Overview, topics: Topics, groups: Groups, clients: Clients, mirrors: Mirrors, loads: Loads, messages: Messages, settings: Settings };
  if (only(0) && Object.hasOwn(lists, section)) return html`<${lists[section]} />`;
  if (section === "topics" && only(1)) return html`<${Topic} key=${name} name=${name} />`;
  if (section === "topics" && more === "partitions" && only(3)) return html`<${Partition} key=${`${name} ${partition}`} topic=${name} partition=${partition} />`;
  if (section === "groups" && only(2)) return html`<${Group} key=${`${name} ${more}`} kind=${name} name=${more} />`;
  return html`<${Page} title="Not found"><${Empty}>No view has this address. <a href=${address(["overview"])}>Go to the overview</a>.<//><//>`;
}

function App() {
  const [failed, setFailed] = useState(null);
  const known = useStore(session);
  const { parts } = useStore(route);
  const cluster = currentCluster()?.id;

  const start = () => {
    setFailed(null);
    readSession().catch(setFailed);
  };
  useEffect(start, []);
  useEffect(() => {
    overview.set(null);
    if (!cluster) return undefined;
    open();
    return close;
  }, [cluster]);
  useEffect(() => {
    if (!parts.length) go(address(["overview"]), { replace: true });
  }, [parts]);

  if (failed && !known) return html`<main class="login"><${Failure} error=${failed} retry=${start} /></main>`;
  if (!known) return html`<p class="starting" role="status">Reading…</p>`;
  if (known.login && known.user === null) return html`<${Login} />`;
  const section = parts[0] ?? "overview";
  return html`<${Shell} section=${section}>
    ${cluster ? html`<div key=${cluster}>${view(parts.length ? parts : ["overview"])}</div>` : html`<${Empty}>The console watches no cluster.<//>`}
  <//>`;
}

startRouter();
startKeys();
const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
