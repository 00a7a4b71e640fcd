// A worker for Node.js: JavaScript with top-level await, in a session that stays alive.
//
// It has two threads. The main thread runs the user's code through an inspector session with
// itself: Runtime.evaluate allows await, and lets code redeclare names. The channel's thread reads
// frames at any time, and ends computing code through its own inspector session with the main
// thread: Runtime.terminateExecution. So this worker has a reader thread, and signals itself.
//
// It needs Node 20 or newer, on Linux or macOS, and no packages. Code has require(); import() is an
// error, because the inspector runs code without a module around it.

import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'
import { createRequire, builtinModules } from 'node:module'
import { Session } from 'node:inspector'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import fs from 'node:fs'
import net from 'node:net'
import util from 'node:util'
import vm from 'node:vm'

// The words of shared memory, followed by room for one answer.
const LOCK = 0, ANSWERED = 1, LENGTH = 2, ENDED = 3, WANTED = 4, ANSWER = 16, ANSWER_BYTES = 1 << 20
const ENDING = 1, LEFT = 2 // values of ENDED

// A Wire writes whole frames and markers, from either thread.
class Wire {
  constructor ({ out, nonce, shared }) {
    Object.assign(this, { out, nonce, shared, words: new Int32Array(shared, 0, 5) })
    this.terminal = fs.openSync('/dev/tty', 'w') // the worker's own descriptor, close-on-exec
    this.marks = new BigUint64Array(shared, 32, 1)
  }

  locked (write) {
    while (Atomics.compareExchange(this.words, LOCK, 0, 1) !== 0) Atomics.wait(this.words, LOCK, 1, 10)
    try { return write() } finally {
      Atomics.store(this.words, LOCK, 0)
      Atomics.notify(this.words, LOCK)
    }
  }

  marker (body) { return `\x1b_${this.nonce};${body}\x1b\\` }

  // send writes a frame. If it has a position in the text, its marker is written first.
  send (message, marked) {
    this.locked(() => {
      if (marked) {
        message.mark = Number(Atomics.add(this.marks, 0, 1n)) + 1
        writeAll(this.terminal, Buffer.from(this.marker('#' + message.mark)))
      }
      const payload = encode(message)
      const frame = Buffer.alloc(4 + payload.length)
      frame.writeUInt32BE(payload.length)
      payload.copy(frame, 4)
      writeAll(this.out, frame)
    })
  }

  // error needs no lock: the kernel keeps what one call writes to a terminal together.
  error (text) { writeAll(this.terminal, Buffer.from(this.marker('E') + text + this.marker('O'))) }
}

const never = new Int32Array(new SharedArrayBuffer(4))

function writeAll (fd, bytes) {
  for (let at = 0; at < bytes.length;) {
    try { at += fs.writeSync(fd, bytes, at) } catch (err) {
      if (err.code !== 'EAGAIN') throw err
      Atomics.wait(never, 0, 0, 1) // the terminal or pipe is full
    }
  }
}

// The part of MessagePack that the protocol and its values use.

function encode (value) {
  const parts = []
  const head = (...bytes) => parts.push(Buffer.from(bytes))
  const sized = (n, fix, small, codes) => {
    if (n < small) return head(fix | n)
    const b = Buffer.alloc(n < 256 && codes[0] ? 2 : n < 65536 ? 3 : 5)
    b[0] = codes[b.length === 2 ? 0 : b.length === 3 ? 1 : 2]
    b.writeUIntBE(n, 1, b.length - 1)
    parts.push(b)
  }
  const number = (code, bytes, write) => { const b = Buffer.alloc(1 + bytes); b[0] = code; write(b); parts.push(b) }
  const put = (v, depth) => {
    if (depth > 128) throw new RangeError('the value is nested too deep')
    if (v === null || v === undefined) head(0xc0)
    else if (typeof v === 'boolean') head(v ? 0xc3 : 0xc2)
    else if (typeof v === 'bigint' || Number.isSafeInteger(v)) {
      if (v >= 0 && v < 128) head(Number(v))
      else if (v >= 0) number(0xcf, 8, b => b.writeBigUInt64BE(BigInt(v), 1))
      else number(0xd3, 8, b => b.writeBigInt64BE(BigInt(v), 1))
    } else if (typeof v === 'number') number(0xcb, 8, b => b.writeDoubleBE(v, 1))
    else if (typeof v === 'string') {
      const text = Buffer.from(v)
      sized(text.length, 0xa0, 32, [0xd9, 0xda, 0xdb])
      parts.push(text)
    } else if (ArrayBuffer.isView(v)) {
      sized(v.byteLength, 0, 0, [0xc4, 0xc5, 0xc6])
      parts.push(Buffer.from(v.buffer, v.byteOffset, v.byteLength))
    } else if (v instanceof Date) {
      head(0xc7, 12, 0xff)
      const b = Buffer.alloc(12)
      b.writeUInt32BE((((v % 1000) + 1000) % 1000) * 1e6)
      b.writeBigInt64BE(BigInt(Math.floor(v / 1000)), 4)
      parts.push(b)
    } else if (Array.isArray(v)) {
      sized(v.length, 0x90, 16, [0, 0xdc, 0xdd])
      for (const e of v) put(e, depth + 1)
    } else if (typeof v === 'object') {
      const entries = Object.entries(v).filter(([, e]) => e !== undefined)
      sized(entries.length, 0x80, 16, [0, 0xde, 0xdf])
      for (const [k, e] of entries) { put(k, depth + 1); put(e, depth + 1) }
    } else throw new TypeError(`a ${typeof v} cannot be sent to the host`)
  }
  put(value, 0)
  return Buffer.concat(parts)
}

const strictText = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decode (b, maxDepth) {
  let at = 0
  const take = n => {
    if (n > b.length - at) throw new Error('a value is truncated')
    at += n
    return b.subarray(at - n, at)
  }
  const uint = n => take(n).readUIntBE(0, n)
  const whole = v => Number.isSafeInteger(Number(v)) ? Number(v) : v
  const text = n => strictText.decode(take(n))
  const ext = n => {
    if (take(1).readInt8() !== -1) throw new Error('an extension type')
    const t = take(n)
    if (n === 4) return new Date(t.readUInt32BE() * 1000)
    if (n === 8) return new Date(Number(t.readBigUInt64BE() & 0x3ffffffffn) * 1000 + Math.floor(t.readUInt32BE() / 4 / 1e6))
    if (n === 12) return new Date(Number(t.readBigInt64BE(4)) * 1000 + Math.floor(t.readUInt32BE() / 1e6))
    throw new Error('a timestamp of invalid length')
  }
  const list = (n, depth) => Array.from({ length: n <= b.length - at ? n : take(n).length }, () => get(depth))
  const map = (n, depth) => {
    const m = Object.create(null)
    if (n > b.length - at) take(n)
    for (let i = 0; i < n; i++) {
      const key = get(depth)
      if (typeof key !== 'string' || key in m) throw new Error('a key that is not a text or is duplicate')
      m[key] = get(depth)
    }
    return m
  }
  const get = depth => {
    const c = uint(1)
    if ((c >= 0x80 && c < 0xa0) || (c >= 0xdc && c <= 0xdf)) if (++depth > maxDepth) throw new Error('a value is nested too deep')
    if (c < 0x80) return c
    if (c < 0x90) return map(c & 15, depth)
    if (c < 0xa0) return list(c & 15, depth)
    if (c < 0xc0) return text(c & 31)
    if (c >= 0xe0) return c - 256
    switch (c) {
      case 0xc0: return null
      case 0xc2: return false
      case 0xc3: return true
      case 0xc4: return Buffer.from(take(uint(1)))
      case 0xc5: return Buffer.from(take(uint(2)))
      case 0xc6: return Buffer.from(take(uint(4)))
      case 0xc7: return ext(uint(1))
      case 0xca: return take(4).readFloatBE()
      case 0xcb: return take(8).readDoubleBE()
      case 0xcc: return uint(1)
      case 0xcd: return uint(2)
      case 0xce: return uint(4)
      case 0xcf: return whole(take(8).readBigUInt64BE())
      case 0xd0: return take(1).readInt8()
      case 0xd1: return take(2).readInt16BE()
      case 0xd2: return take(4).readInt32BE()
      case 0xd3: return whole(take(8).readBigInt64BE())
      case 0xd6: return ext(4)
      case 0xd7: return ext(8)
      case 0xd9: return text(uint(1))
      case 0xda: return text(uint(2))
      case 0xdb: return text(uint(4))
      case 0xdc: return list(uint(2), depth)
      case 0xdd: return list(uint(4), depth)
      case 0xde: return map(uint(2), depth)
      case 0xdf: return map(uint(4), depth)
    }
    throw new Error(`byte ${c} begins no value`)
  }
  const value = get(0)
  if (at !== b.length) throw new Error('bytes after the value')
  return value
}

// The main thread, which runs the user's code.

const shown = Symbol.for('turnstone.show')

function main () {
  const [inFD, out, nonce] = process.env.REPL_IPC.split(',').map((v, i) => i < 2 ? Number(v) : v)
  delete process.env.REPL_IPC
  const data = { in: inFD, out, nonce, shared: new SharedArrayBuffer(ANSWER * 4 + ANSWER_BYTES) }
  const wire = new Wire(data)
  const { words, shared } = wire
  let channel // set last, because its thread uses the definitions here

  const receive = Atomics.load.bind(null, words, ANSWERED)
  const answer = () => {
    const length = Atomics.load(words, LENGTH)
    if (length < 0) return null
    return Buffer.from(Buffer.from(shared, ANSWER * 4, length)).toString().replace(/\r?\n$/, '')
  }
  // prompt asks for a line and blocks until it arrives. null is end of file.
  globalThis.prompt = (text = '') => {
    const before = receive()
    channel.postMessage({ ask: String(text) })
    while (receive() === before) Atomics.wait(words, ANSWERED, before)
    return answer()
  }
  let asked = null // the request of the standard input stream
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    value: new Readable({ read () { asked ??= channel.postMessage({ ask: '', stream: true }) ?? true } })
  })
  // Text is written synchronously: a stream in which code was terminated would write no more.
  const written = write => (chunk, encoding, done) => {
    if (typeof encoding === 'function') [encoding, done] = [undefined, encoding]
    write(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk)
    if (done) process.nextTick(done)
    return true
  }
  process.stdout.write = written(chunk => writeAll(1, chunk))
  process.stderr.write = written(chunk => wire.error(Buffer.from(chunk).toString()))

  const calls = new Map()
  const proxyOf = (of, other = () => undefined) => new Proxy({}, {
    get: (_, name) => of.get(name) ?? (typeof name === 'string' && name !== 'then' ? other(name) : undefined),
    has: (_, name) => of.has(name),
    ownKeys: () => [...of.keys()],
    getOwnPropertyDescriptor: (_, name) => of.has(name) ? { value: of.get(name), enumerable: true, configurable: true } : undefined
  })
  const functions = new Map()
  const groups = new Map() // functions by name for each group; an empty group is opened on first use
  // Code finds a function of a group as turnstone.tools.GROUP.NAME.
  const tools = new Proxy({}, {
    get: (_, group) => !groups.has(group) ? undefined : proxyOf(groups.get(group), name => async (...args) => {
      if (groups.get(group).size === 0) await functions.get('_open')(group)
      const found = groups.get(group)?.get(name)
      if (!found) throw new ReferenceError(`${group} has no function ${name}`)
      return found(...args)
    }),
    has: (_, group) => groups.has(group),
    ownKeys: () => [...groups.keys()],
    getOwnPropertyDescriptor: (_, group) => groups.has(group) ? { enumerable: true, configurable: true } : undefined
  })
  globalThis.turnstone = proxyOf(functions, name => name === 'tools' ? tools : undefined)
  let lastCall = 0
  const offer = list => {
    functions.clear()
    groups.clear()
    for (const { name: own, group, params } of list) {
      const name = group ? `${group}.${own}` : own
      if (group && !groups.has(group)) groups.set(group, new Map())
      if (own === '_open' && !group) for (const one of params?.properties?.group?.enum ?? []) if (!groups.has(one)) groups.set(one, new Map())
      const names = Object.keys(params?.properties ?? {})
      ;(group ? groups.get(group) : functions).set(own, (...args) => new Promise((resolve, reject) => {
        const named = args.length === 1 && Object.getPrototypeOf(args[0] ?? 0) === Object.prototype && names.length !== 1
        if (!named && args.length > names.length) throw new TypeError(`${name} takes ${names.length} arguments: ${names.join(', ')}`)
        const document = encode(named ? args[0] : Object.fromEntries(args.map((a, i) => [names[i], a])))
        const id = ++lastCall
        calls.set(id, { resolve, reject })
        channel.postMessage({ call: { id, name, args: document } })
      }))
    }
  }
  const result = ({ id, failed, value }) => {
    const call = calls.get(id)
    calls.delete(id)
    try {
      const document = decode(Buffer.from(value), 128)
      if (!failed) return call?.resolve(document)
      call?.reject(Object.assign(new Error(document.message), { name: document.name }))
    } catch (err) { call?.reject(new Error(`the result cannot be read: ${err.message}`)) }
  }

  const receiveMessage = m => {
    if (m.run !== undefined) run(m)
    else if (m.functions) offer(m.functions)
    else if (m.result) result(m.result)
    else if (m.line !== undefined) { asked = null; process.stdin.push(m.line) } else if (m.cancelled) m.cancelled.forEach(id => calls.delete(id))
    else if (m.end !== undefined) exit(m.end)
  }
  process.on('SIGINT', () => {}) // the frame carries the interrupt
  process.on('uncaughtException', err => wire.error('Uncaught ' + util.inspect(err) + '\n'))
  const exit = process.exit.bind(process)
  process.on('exit', code => {
    if (Atomics.compareExchange(words, ENDED, 0, ENDING) === 0) wire.send({ type: 'session_end', reason: 'exit', code }, true)
    channel.postMessage({ leave: true }) // otherwise Node waits for its inspector's clients, and says so
    Atomics.wait(words, ENDED, ENDING, 1000)
  })

  globalThis.require = createRequire(process.cwd() + '/')
  for (const name of builtinModules.filter(n => !n.startsWith('_') && !n.includes('/') && !(n in globalThis))) {
    Object.defineProperty(globalThis, name, {
      configurable: true,
      get: () => globalThis.require(name),
      set: value => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true })
    })
  }

  const inspector = new Session()
  inspector.connect()
  const post = (method, params) => new Promise(resolve => inspector.post(method, params, (err, r) => resolve(err ? { err } : r)))
  globalThis[shown] = v => { process.stdout.write(util.inspect(v) + '\n') }
  let show
  inspector.post('Runtime.evaluate', { expression: `globalThis[Symbol.for('${shown.description}')]` }, (_, r) => { show = r.result.objectId })
  delete globalThis[shown]
  // run runs an input, shows its value, and reports how it ended.
  const run = async ({ run, turn }) => {
    if (Atomics.load(wire.words, WANTED) !== (turn | 0)) return // interrupted before it started
    let r = await post('Runtime.evaluate', { expression: run, replMode: true, awaitPromise: true, objectGroup: 'turn' })
    if (r.result && !r.exceptionDetails && r.result.type !== 'undefined') {
      const { objectId, value, unserializableValue } = r.result
      const v = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value }
      r = await post('Runtime.callFunctionOn', { objectId: show, functionDeclaration: 'function (v) { this(v) }', arguments: [v] })
    }
    inspector.post('Runtime.releaseObjectGroup', { objectGroup: 'turn' })
    const { exception, text } = r.exceptionDetails ?? {}
    let words = exception?.description ?? (exception && String(exception.value)) ?? text
    words = words?.split(/\n +at Session\.post \(node:inspector/)[0] // the remaining frames are the worker's
    channel.postMessage({ done: turn, words, name: exception?.className })
  }
  channel = new Worker(fileURLToPath(import.meta.url), { workerData: data })
  channel.on('message', receiveMessage)
}

// The thread of the channel.

class Channel {
  constructor () {
    this.wire = new Wire(workerData)
    this.session = new Session()
    this.session.connectToMainThread()
    this.turn = 0 // the active turn
    this.lastWait = 0
    this.parts = new Map() // parts of results
    this.open = new Map() // turn of each open call
  }

  post (method, params) { return new Promise(resolve => this.session.post(method, params, (err, r) => resolve(err ? { err } : r))) }

  async start () {
    parentPort.on('message', m => this.fromMain(m)) // this also keeps the thread alive
    this.known = new Set(await this.globals())
    this.wire.send({
      type: 'worker_ready',
      protocol: { name: 'turnstone-worker', version: 1 },
      worker: { name: 'node', version: '1', language: 'node', runtime_version: process.versions.node, executable: process.execPath, pid: process.pid },
      capabilities: { images: false, fence: true, query: true, variables: true, functions: true, interrupt: 'self' }
    })
    this.wire.send({ type: 'idle', turn: 0, prompt: '> ', outcome: 'ok' }, true)
    let unread = Buffer.alloc(0)
    const input = new net.Socket({ fd: workerData.in, readable: true, writable: false })
    input.on('data', bytes => {
      unread = Buffer.concat([unread, bytes])
      try {
        while (unread.length >= 4) {
          const length = unread.readUInt32BE()
          if (length > 64 << 20) throw new Error('a frame is too long')
          if (unread.length < 4 + length) break
          const message = decode(unread.subarray(4, 4 + length), 16)
          unread = unread.subarray(4 + length)
          this.take(message)
        }
      } catch (err) { this.end('protocol_error', 1, err.message) }
    })
    input.on('end', () => this.end('shutdown', 0))
    input.on('error', () => this.end('shutdown', 0))
  }

  take (m) {
    switch (m?.type) {
      case 'turn_start': return this.run(m)
      case 'turn_input': return this.answer(m)
      case 'interrupt': return this.interrupt(m)
      case 'query': return this.query(m)
      case 'functions': return parentPort.postMessage({ functions: decode(m.list, 128) })
      case 'call_result': return this.result(m)
      case 'shutdown': return this.end('shutdown', 0)
    }
    throw new Error(`a message of the type ${m?.type}`)
  }

  run ({ turn, input }) {
    Object.assign(this, { turn, acted: new Set() })
    Atomics.store(this.wire.words, WANTED, turn | 0)
    parentPort.postMessage({ run: input.toString(), turn })
  }

  // done ends the turn that the main thread has finished.
  done ({ done: turn, words, name = 'Error' }) {
    if (this.turn !== turn || this.acted.size > 0) return // the interrupt ends the turn
    if (words === undefined) return this.idle('ok')
    this.wire.error(`Uncaught ${words}\n`)
    const [first] = words.split('\n')
    this.idle('error', { name, message: first.replace(name + ': ', '').slice(0, 4000) })
  }

  idle (outcome, error) {
    const { turn } = this
    this.turn = 0
    if (Atomics.load(this.wire.words, ENDED) === 0) this.wire.send({ type: 'idle', turn, prompt: '> ', outcome, error }, true)
  }

  async interrupt ({ turn, seq }) {
    const active = turn !== 0 && turn === this.turn
    this.wire.send({ type: 'interrupt_ack', turn, seq, result: active ? 'raised' : 'stale' })
    if (!active || this.acted.has(seq)) return
    this.acted.add(seq)
    process.kill(0, 'SIGINT') // its children
    const cancelled = [...this.open].filter(([, of]) => of === turn).map(([id]) => id)
    for (const id of cancelled) {
      this.open.delete(id)
      this.wire.send({ type: 'call_cancel', id })
    }
    parentPort.postMessage({ cancelled })
    await this.terminate()
    if (this.turn === turn) this.idle('interrupted')
  }

  // terminate ends the computation of the main thread. If it only awaits something, the
  // termination hits the message instead, and the awaited operation continues unnoticed.
  terminate () {
    Atomics.store(this.wire.words, WANTED, 0)
    const over = this.post('Runtime.terminateExecution')
    if (this.asking) this.hand(this.asking, null)
    this.asking = null
    parentPort.postMessage({ cancelled: [] })
    return over
  }

  fromMain (m) {
    if (m.done) this.done(m)
    else if (m.leave) this.leave()
    else if (m.ask !== undefined) {
      if (this.turn === 0) return this.hand(m, null)
      this.asking = { ...m, wait: ++this.lastWait, turn: this.turn }
      const { turn, wait, ask } = this.asking
      this.wire.send({ type: 'stdin_wait', turn, wait, prompt: ask, kind: 'line', want: 'line' }, true)
    } else if (m.call) {
      this.open.set(m.call.id, this.turn)
      this.wire.send({ type: 'call', turn: this.turn, ...m.call }, true)
    }
  }

  answer ({ turn, wait, input, eof }) {
    const asking = this.asking
    if (!asking || asking.turn !== turn || asking.wait !== wait) return
    this.asking = null
    const line = eof && input.length === 0 ? null : input.toString()
    if (line !== null) this.wire.send({ type: 'input_line', turn, prompt: asking.ask, text: line.replace(/\r?\n$/, ''), secret: false }, true)
    this.hand(asking, line)
  }

  // hand passes a line to the main thread, or null for the end of file.
  hand ({ stream }, line) {
    if (stream) return parentPort.postMessage({ line })
    const { words, shared } = this.wire
    Atomics.store(words, LENGTH, line === null ? -1 : Buffer.from(shared, ANSWER * 4).write(line))
    Atomics.add(words, ANSWERED, 1)
    Atomics.notify(words, ANSWERED)
  }

  result ({ id, value, more, failed }) {
    if (!this.open.has(id)) return
    const parts = this.parts.get(id) ?? []
    parts.push(value)
    if (more) return this.parts.set(id, parts)
    this.parts.delete(id)
    this.open.delete(id)
    parentPort.postMessage({ result: { id, failed, value: Buffer.concat(parts) } })
  }

  async query ({ id, kind, text, cursor }) {
    const answer = { parse: () => ({ status: judge(text) }), complete: () => this.complete(text, cursor), variables: () => this.variables() }[kind]
    this.wire.send({ type: 'query_result', id, status: 'ok', ...await answer() })
  }

  // quiet evaluates an expression without running user code.
  quiet (expression) { return this.post('Runtime.evaluate', { expression, throwOnSideEffect: true, silent: true, objectGroup: 'query', timeout: 100 }) }

  async globals () {
    const { names } = await this.post('Runtime.globalLexicalScopeNames', {})
    const { result } = await this.quiet('Object.getOwnPropertyNames(globalThis).join(" ")')
    return [...names, ...result.value.split(' ')]
  }

  async complete (text, cursor) {
    const before = Buffer.from(text).subarray(0, cursor).toString()
    const [, path, word] = before.match(/((?:[\w$]+\.)*)([\w$]*)$/)
    let names = keywords
    if (path === '') names = [...keywords, ...await this.globals()]
    else {
      const { result } = await this.quiet(path.slice(0, -1))
      if (result?.objectId) {
        const all = await this.post('Runtime.getProperties', { objectId: result.objectId, ownProperties: false })
        names = (all.result ?? []).map(p => p.name)
      } else names = []
    }
    this.session.post('Runtime.releaseObjectGroup', { objectGroup: 'query' })
    const matches = [...new Set(names)].filter(n => n.startsWith(word) && /^[\w$]+$/.test(n)).sort().slice(0, 200)
    return { start: cursor - Buffer.byteLength(word), matches: matches.length ? matches : undefined }
  }

  async variables () {
    const names = (await this.globals()).filter(n => !this.known.has(n) && !n.startsWith('_'))
    const variables = []
    for (const name of names.slice(-200).reverse()) {
      const { result } = await this.quiet(name)
      variables.push({ name, type: result?.className ?? result?.type ?? 'unknown', shape: result?.description?.match(/^\w+\((\d+)\)$/)?.[1] })
    }
    return { variables: variables.length ? variables : undefined, more: names.length > 200 ? names.length - 200 : undefined }
  }

  // end ends the process. Computing code is terminated, and a reader gets end of file.
  async end (reason, code, message) {
    if (Atomics.compareExchange(this.wire.words, ENDED, 0, ENDING) !== 0) return
    if (this.turn !== 0) await this.terminate()
    try { this.wire.send({ type: 'session_end', reason, message }, true) } catch { /* nobody listens */ }
    parentPort.postMessage({ end: code })
  }

  leave () {
    this.session.disconnect()
    Atomics.store(this.wire.words, ENDED, LEFT)
    Atomics.notify(this.wire.words, ENDED)
  }
}

const keywords = ['async', 'await', 'break', 'case', 'catch', 'class', 'const', 'continue', 'default', 'delete', 'do', 'else', 'export', 'extends', 'false', 'finally', 'for', 'function', 'if', 'import', 'instanceof', 'let', 'new', 'null', 'return', 'super', 'switch', 'this', 'throw', 'true', 'try', 'typeof', 'undefined', 'var', 'void', 'while', 'yield']

// judge reports whether an input is complete. It compiles the input in this thread and runs nothing.
function judge (text) {
  const status = code => {
    try {
      new vm.Script(code) // eslint-disable-line no-new
      return 'complete'
    } catch (err) {
      return /Unexpected end of input|Unterminated template|missing \) after/.test(err.message) ? 'incomplete' : 'invalid'
    }
  }
  const plain = status(text)
  if (plain !== 'invalid' || !/\bawait\b/.test(text)) return plain
  if (status(`(async () => {${text}\n})`) === 'complete') return 'complete'
  return status(`(async () => {${text}`) === 'incomplete' && status(`(async () => {${text}\n})`) === 'incomplete' ? 'incomplete' : 'invalid'
}

if (isMainThread) main()
else new Channel().start()
