// SPDX-License-Identifier: Apache-2.0
// Loaded by a Node that was started ahead of its job (warm.h), as the last thing before it goes on to its
// main file. Nothing of it is to be seen by the program.
'use strict';

// Loaded once more, below.
if (module.parent.id !== 'internal/preload') return;

const Module = require('module');
const path = require('path');

// It was started elsewhere: Node looks for a package.json around what it loads, and where it found none it does not
// look again.
process.chdir('/sandbox');

function forget() {
  delete require.cache[__filename];
  for (const key of Object.keys(Module._pathCache)) delete Module._pathCache[key];
}

// Node compiles what it has when that is first called. So what most programs do is done once: loading a file, and
// writing a line to a pipe. This one leads nowhere and is nothing that Node's loop would know of.
forget();
require(__filename);
require('tty');
const nowhere = new (require('net').Socket)({ handle: { writeUtf8String: () => 0 }, readable: false, writable: true });
new (require('console').Console)({ stdout: nowhere, colorMode: false }).log('%s', 1, 2.5, 'a', { a: [true, null] });
process._tickCallback(); // what they left to do after this

const addon = { exports: {} };
process.dlopen(addon, '/sandbox/.cay-addon');
const started = process.execArgv.filter((word, i, all) => word !== '-r' && all[i - 1] !== '-r');

// No module of this name was ever loaded, and no option said so.
forget();
process.execArgv.splice(0, process.execArgv.length, ...started);
const named = Object.getOwnPropertyDescriptor(process, '_preload_modules');
if (named) Object.defineProperty(process, '_preload_modules', { ...named, value: [] });

// Where Node looks for it; a program finds it where it was.
const own_emit = addon.exports.watch(process, require('events').prototype);
Object.defineProperty(own_emit, 'length', { value: process.emit.length });
Object.defineProperty(Object.getPrototypeOf(process), 'emit', {
  value: own_emit, writable: true, enumerable: false, configurable: true,
});

const words = addon.exports.take();
const options = words.slice(1, 1 + started.length);
const source = words[1 + started.length];
const major = parseInt(process.versions.node, 10);

// Which main file to run was settled before the job was known. Node asks for runMain once; a bound function is
// no frame in a stack trace. That it asks is known of these versions.
const main = source && path.resolve(source);
const is_other = main !== process.argv[1];
if (!source || options.some((word, i) => word !== started[i]) || (is_other && major !== 18 && major !== 20))
  addon.exports.exec();
process.argv.splice(1, process.argv.length, main, ...words.slice(2 + started.length));
if (is_other) {
  const real = Object.getOwnPropertyDescriptor(Module, 'runMain');
  Object.defineProperty(Module, 'runMain', {
    configurable: true,
    get() {
      Object.defineProperty(Module, 'runMain', real);
      return real.value.bind(Module, main);
    },
  });
}
