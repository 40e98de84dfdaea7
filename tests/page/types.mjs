// The page's TypeScript has no type errors.
import {execFileSync} from 'node:child_process';
import {cpSync, existsSync, symlinkSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish, folder, skip} from './common.mjs';

const modules = process.env.STEPCAST_PAGE_MODULES;
if (!existsSync(join(modules, 'typescript'))) skip('no typescript in build/page');
cpSync('page/src', join(folder, 'src'), {recursive: true});
cpSync('page/tsconfig.json', join(folder, 'tsconfig.json'));
symlinkSync(modules, join(folder, 'node_modules'));
try {
  execFileSync(process.execPath, [join(modules, 'typescript/bin/tsc'), '--noEmit', '-p', folder], {encoding: 'utf8', stdio: 'pipe'});
} catch (error) {
  check('types', false, error.stdout);
}
finish();
