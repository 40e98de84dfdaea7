// What is drawn waits until the page's text has been painted once; from then on it is drawn at once.
const waiting: (() => void)[] = [];
let painted = false;

export function afterPaint(act: () => void): void {
  if (painted) act();
  else waiting.push(act);
}

requestAnimationFrame(() =>
  setTimeout(() => {
    painted = true;
    for (const act of waiting.splice(0)) act();
  }),
);
