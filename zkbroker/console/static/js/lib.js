// The libraries of the page, vendored: everything else imports them here.

import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";

export { render } from "../vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";

export const html = htm.bind(h);
