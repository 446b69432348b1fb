// Pages live behind the hash: nothing of them is ever sent to the server.
import { useEffect, useState } from "./html.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { page: page || "library", rest, query: new URLSearchParams(query) };
}

export const link = (page, ...rest) => `#/${[page, ...rest.filter(Boolean)].map(encodeURIComponent).join("/")}`;

export const go = (page, ...rest) => {
  location.hash = link(page, ...rest);
};

export function useRoute() {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => setRoute(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
