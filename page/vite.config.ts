// Bundles the page into one HTML file: script and styles stand in it, nothing is loaded. A content
// security policy names the script by its hash, so that no other one can run, whatever a document
// holds; "connect-src 'self'" is for `stepcast serve`. Licences of what is bundled stand in the page.
import {createHash} from 'node:crypto';
import {existsSync, readFileSync} from 'node:fs';
import {defineConfig, type Plugin} from 'vite';

const bundled = ['echarts', 'zrender', 'tslib', 'uplot'];

function licences(): string {
  const files = ['LICENSE', 'LICENSE.txt', 'NOTICE'];
  return bundled
    .map((name) => {
      const folder = `node_modules/${name}`;
      const version = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')).version;
      const texts = files
        .filter((file) => existsSync(`${folder}/${file}`))
        .map((file) => readFileSync(`${folder}/${file}`, 'utf8').trim());
      return `${name} ${version}\n\n${texts.join('\n\n')}`;
    })
    .join(`\n\n${'-'.repeat(72)}\n\n`);
}

function singleFile(): Plugin {
  return {
    name: 'single-file',
    enforce: 'post',
    generateBundle(_, bundle) {
      const page = bundle['index.html'];
      if (page.type !== 'asset') throw new Error('no index.html');
      let html = String(page.source);
      let hash = '';
      for (const [name, item] of Object.entries(bundle)) {
        if (item.type === 'chunk') {
          const code = item.code.trim().replace(/<\/script/gi, '<\\/script').replace(/<!--/g, '\\x3c!--');
          hash = createHash('sha256').update(code).digest('base64');
          html = html.replace(/\s*<script type="module"[^>]*><\/script>/, '');
          html = html.replace('</body>', () => `<script type="module">${code}</script></body>`);
        } else if (name.endsWith('.css')) {
          html = html.replace(/\s*<link rel="stylesheet"[^>]*>/, '');
          html = html.replace('</head>', () => `<style>${String(item.source).trim()}</style></head>`);
        } else {
          continue;
        }
        delete bundle[name];
      }
      const policy =
        `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; ` +
        `img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'`;
      page.source = html.replace(
        '<meta charset="utf-8" />',
        `<meta charset="utf-8" />\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`,
      );
    },
  };
}

export default defineConfig({
  define: {__LICENCES__: JSON.stringify(licences())},
  build: {
    target: 'es2021',
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    chunkSizeWarningLimit: 2000,
    rollupOptions: {output: {inlineDynamicImports: true}},
  },
  plugins: [singleFile()],
});
