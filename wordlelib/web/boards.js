// Replay, duel and watcher. The same code runs as a widget (anywidget calls `render`) and on a static
// page (`page`). Every piece of HTML was made and escaped by wordlelib.boards; here it is only put together,
// and all other text is set as text.
//
// host.data()          what the view shows
// host.ask(message)    ask for more
// host.listen(f)       f(answer) for answers; f() when data has changed

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function labelled(text, control) {
  control.setAttribute("aria-label", text);
  return element("label", {}, text + " ", control);
}

function fill(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => element("option", { value: key }, text)));
  select.value = value;
}

function replay(el, host) {
  const SECOND = 1000;
  const pieces = new Map(); // number of a game -> {head, rows, turns}
  const asked = new Set();
  let data, ranked, timer, ticket = 0;

  const runs = element("select", { onchange: () => host.ask({ run: runs.value }) });
  const player = element("select", { onchange: listSecrets });
  const view = element("select", { onchange: listSecrets });
  const secret = element("select", { onchange: draw });
  const step = element("input", { type: "range", min: 0, oninput: draw });
  const turn = element("output");
  const play = element("button", { onclick: () => (timer ? stop() : start()) }, "▶ play");
  const before = element("button", { title: "previous game", onclick: () => move(-1) }, "◀ game");
  const after = element("button", { title: "next game", onclick: () => move(1) }, "game ▶");
  const count = element("span", { className: "faint", role: "status" });
  const cards = element("div", { className: "cards" });
  const choice = labelled("run", runs);
  el.append(
    element("div", { className: "bar" }, choice, labelled("player", player), labelled("games", view)),
    element("div", { className: "bar" }, labelled("secret", secret), before, after, labelled("turn", step), turn, play, count),
    element("div", { className: "faint" }, "Keys: ← → turn, ↑ ↓ game, space plays and pauses, Home and End first and last turn"),
    cards,
  );

  const everyone = () => player.value === "";
  const of = (number) => data.games[number];

  function chosen() {
    const names = ranked ?? data.views[view.value] ?? [];
    return names.filter((number) => everyone() || String(of(number)[1]) === player.value);
  }

  // The kernel judges games for a moment at a time, so that it answers whatever else is asked meanwhile.
  function judge(known) {
    count.textContent = `judging the games … ${Math.floor(100 * known)}%`;
    host.ask({ view: view.value, player: player.value === "" ? null : Number(player.value), ticket });
  }

  function listSecrets() {
    ranked = null;
    ticket += 1;
    if (data.views[view.value] === null) return judge(0);
    const secrets = [...new Set(chosen().map((number) => of(number)[0]))];
    // a view by rank starts with its first game, others keep the secret where they can
    const kept = secrets.includes(Number(secret.value)) && secret.value !== "" && !data.ranked.includes(view.value);
    fill(secret, secrets.map((s) => [s, data.secrets[s]]), kept ? secret.value : secrets[0] ?? "");
    draw();
  }

  function draw() {
    turn.textContent = step.value;
    count.textContent = `${chosen().length.toLocaleString("en")} games`;
    if (secret.value === "") return cards.replaceChildren("No game of this kind.");
    const shown = data.of_secret[secret.value].filter((n) => everyone() || String(of(n)[1]) === player.value);
    const missing = shown.filter((number) => !pieces.has(number) && !asked.has(number));
    if (missing.length) {
      missing.forEach((number) => asked.add(number));
      host.ask({ games: missing });
    }
    const ready = shown.filter((number) => pieces.has(number));
    if (ready.length || !shown.length) cards.innerHTML = ready.map((number) => card(pieces.get(number))).join("");
  }

  function card({ head, rows, turns }) {
    const taken = Math.min(step.value, rows.length);
    const board = rows.slice(0, taken).join("") + data.blank.repeat(Math.max(0, data.turns - taken));
    return `<div class="card">${head}<div class="board">${board}</div><div>${turns[taken - 1] ?? ""}</div></div>`;
  }

  function move(by) {
    const place = secret.selectedIndex + by;
    if (place < 0 || place >= secret.options.length) return;
    secret.selectedIndex = place;
    draw();
  }

  function go(to) {
    step.value = to;
    draw();
  }

  function start() {
    if (Number(step.value) >= data.turns) go(0);
    play.textContent = "⏸ pause";
    timer = setInterval(() => {
      if (!el.isConnected || Number(step.value) >= data.turns) return stop();
      go(Number(step.value) + 1);
    }, SECOND);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  }

  el.addEventListener("keydown", (event) => {
    const own = event.target.tagName;
    if (own === "SELECT" || (own === "BUTTON" && event.key === " ")) return;
    const keys = {
      ArrowLeft: () => go(Number(step.value) - 1), ArrowRight: () => go(Number(step.value) + 1),
      ArrowUp: () => move(-1), ArrowDown: () => move(1), Home: () => go(0), End: () => go(data.turns),
      " ": () => play.click(),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  function reset() {
    stop();
    data = host.data();
    pieces.clear();
    asked.clear();
    choice.hidden = data.runs.length < 2;
    fill(runs, data.runs.map((name) => [name, name]), data.run);
    fill(player, [["", "all side by side"], ...data.players.map((name, n) => [n, name])], data.player);
    fill(view, Object.keys(data.views).map((name) => [name, name]), "all games");
    step.max = data.turns;
    step.value = data.turns;
    listSecrets();
    secret.value = data.secret;
    draw();
  }

  host.listen((answer) => {
    if (!answer) return reset();
    if (answer.error) count.textContent = answer.error;
    for (const [number, piece] of Object.entries(answer.games ?? {})) pieces.set(Number(number), piece);
    if (answer.games) draw();
    if (answer.ticket !== ticket) return;
    if (answer.ranked) {
      ranked = answer.ranked;
      const secrets = [...new Set(ranked.map((number) => of(number)[0]))];
      fill(secret, secrets.map((s) => [s, data.secrets[s]]), secrets[0] ?? "");
      draw();
    } else if (el.isConnected) judge(answer.judged);
  });
  reset();
  return stop;
}

function duel(el, host) {
  const entry = element("input", { "aria-label": "your guess", placeholder: "your guess", autocomplete: "off", spellcheck: false });
  entry.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // JupyterLab does so too: no form is sent by Enter there
    form.requestSubmit();
  });
  const guess = element("button", { type: "submit" }, "Guess");
  const form = element("form", { className: "bar", onsubmit: (event) => {
    event.preventDefault();
    host.ask({ guess: entry.value });
  } }, entry, guess);
  const hint = element("button", { type: "button", onclick: () => host.ask({ hint: true }) }, "Hint");
  const anew = element("button", { type: "button", onclick: () => host.ask({ anew: true }) }, "New game");
  const hard = element("input", { type: "checkbox", onchange: () => host.ask({ hard: hard.checked }) });
  const message = element("div", { className: "message", role: "status" });
  const hints = element("div");
  const cards = element("div", { className: "cards" });
  const help = element("details", {}, element("summary", {}, "What do the marks mean?"), host.data().help);
  form.append(hint, anew, labelled("hard mode", hard));
  el.append(form, message, hints, cards, help);

  function draw() {
    const data = host.data();
    cards.innerHTML = data.cards.join("");
    hints.innerHTML = data.hint;
    message.textContent = data.message;
    entry.setAttribute("aria-invalid", data.refused);
    if (data.clear) entry.value = "";
    hard.checked = data.hard;
    hard.disabled = data.locked;
    entry.disabled = guess.disabled = data.done;
  }
  host.listen((answer) => (answer ? (message.textContent = answer.error) : draw()));
  draw();
}

function watch(el, host) {
  const draw = () => (el.innerHTML = host.data().html);
  const timer = setInterval(() => {
    if (el.isConnected) host.ask({ news: true });
  }, 2000);
  host.listen((answer) => answer ?? draw());
  draw();
  return () => clearInterval(timer);
}

const VIEWS = { replay, duel, watch };

function show(parent, kind, host) {
  // JupyterLab must not take our keys for its own
  const el = element("div", { className: `wb ${kind}`, tabIndex: 0, "data-lm-suppress-shortcuts": "true" });
  parent.append(el);
  return [el, VIEWS[kind](el, host)];
}

export default {
  render({ model, el }) {
    const listeners = [];
    const changed = () => listeners.forEach((listener) => listener());
    const answered = (answer) => listeners.forEach((listener) => listener(answer));
    model.on("change:data", changed);
    model.on("msg:custom", answered);
    const [, stop] = show(el, model.get("kind"), {
      data: () => model.get("data"), ask: (message) => model.send(message), listen: (f) => listeners.push(f),
    });
    return () => {
      stop?.();
      model.off("change:data", changed);
      model.off("msg:custom", answered);
    };
  },
};

// A page without a kernel: its index and, for each secret, its games lie packed in the page.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function page() {
  const packed = document.getElementById("wordle-games").textContent.trim().split("\n");
  const data = await unpacked(packed[0]);
  let tell = () => {};
  const [el] = show(document.body, "replay", {
    data: () => data,
    ask: async ({ games }) => {
      const secrets = new Set(games.map((number) => data.games[number][0]));
      for (const secret of secrets) tell({ games: await unpacked(packed[1 + secret]) });
    },
    listen: (f) => (tell = f),
  });
  el.classList.add("page");
  el.prepend(element("h1", {}, data.title));
  el.focus();
}

if (document.getElementById("wordle-games")) page();
