// The login form.

import { login } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { State } from "../parts.js";

export function Login() {
  const [state, setState] = useState({ busy: false, error: null });
  const user = useRef(null);
  const password = useRef(null);
  useEffect(() => {
    document.title = "Log in · zkbroker console";
    user.current?.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await login(user.current.value, password.current.value);
    } catch (error) {
      setState({ busy: false, error });
      if (password.current) {
        password.current.value = "";
        password.current.focus();
      }
    }
  };
  return html`<main id="main" class="login" tabindex="-1">
    <form class="panel" method="post" onSubmit=${submit}>
      <h1 tabindex="-1">zkbroker console</h1>
      <label class="field wide"><span>User</span><input ref=${user} name="user" autocomplete="username" autocapitalize="off" spellcheck=${false} required /></label>
      <label class="field wide"><span>Password</span><input ref=${password} name="password" type="password" autocomplete="current-password" required /></label>
      ${state.error && html`<p class="notice error" role="alert"><${State} kind="error">Failed<//> ${state.error.message}</p>`}
      <button type="submit" class="primary" disabled=${state.busy}>${state.busy ? "Logging in…" : "Log in"}</button>
    </form>
  </main>`;
}
