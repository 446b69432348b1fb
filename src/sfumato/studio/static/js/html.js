// Preact and htm, vendored: what is interpolated into html`...` is text, never markup.
export {
  createContext, html, render, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/preact-htm.js";
