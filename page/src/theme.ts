// Light, dark, or what the system says; and the colours that charts draw with, read from the style
// sheet so that they are said once.

export type Choice = 'system' | 'light' | 'dark';
const key = 'stepcast-theme';
const system = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();
let printing = false;

function stored(): Choice {
  try {
    const value = localStorage.getItem(key);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system'; // pages from disk may have no storage
  }
}
let choice: Choice = stored();

export const isDark = (): boolean =>
  !printing && (choice === 'dark' || (choice === 'system' && system.matches));
export const themeChoice = (): Choice => choice;

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  for (const listener of listeners) listener();
}

export function setTheme(to: Choice): void {
  choice = to;
  try {
    if (to === 'system') localStorage.removeItem(key);
    else localStorage.setItem(key, to);
  } catch {
    // it holds for this page only
  }
  apply();
}

export function onTheme(listener: () => void): void {
  listeners.add(listener);
}

export function startTheme(): void {
  system.addEventListener('change', apply);
  // Paper is white.
  window.addEventListener('beforeprint', () => {
    printing = true;
    apply();
  });
  window.addEventListener('afterprint', () => {
    printing = false;
    apply();
  });
  apply();
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Colours of series, the accent first.
export const series = (): string[] =>
  ['bwd', 'ag', 'ho', 'opt', 'rs', 'fwd', 'ar', 'cp'].map((name) => colour(name));
