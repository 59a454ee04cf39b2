// Runs once, before there is any cell code, and gives the worker what is awkward to say in C. What
// runs later (the functions under "later") must look nothing up that cell code could have replaced.
(function (checkSyntax) {
    "use strict";

    // ---- The global object: what ECMAScript has, and nothing of the engine's own ----

    const standard = new Set([
        "globalThis", "Infinity", "NaN", "undefined", "eval", "isFinite", "isNaN", "parseFloat", "parseInt",
        "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape", "unescape",
        "AggregateError", "Array", "ArrayBuffer", "BigInt", "BigInt64Array", "BigUint64Array", "Boolean",
        "DataView", "Date", "Error", "EvalError", "FinalizationRegistry", "Float16Array", "Float32Array",
        "Float64Array", "Function", "Int8Array", "Int16Array", "Int32Array", "Iterator", "Map", "Number",
        "Object", "Promise", "Proxy", "RangeError", "ReferenceError", "RegExp", "Set", "String", "Symbol",
        "SyntaxError", "TypeError", "Uint8Array", "Uint8ClampedArray", "Uint16Array", "Uint32Array",
        "URIError", "WeakMap", "WeakRef", "WeakSet", "Intl", "JSON", "Math", "Reflect",
    ]);
    for (const key of Reflect.ownKeys(globalThis))
        if (!standard.has(key) && key !== Symbol.toStringTag)
            if (!Reflect.deleteProperty(globalThis, key))
                throw new Error("cannot remove " + String(key));

    // ---- The source, made into something that runs ----

    const AsyncFunction = (async () => {}).constructor;
    const importsMax = 64;

    // Names that do not occur in the source. As long as `import`, so that columns stay.
    const unusedNames = (source, count) => {
        const names = [];
        for (let i = 0; names.length < count; i++) {
            const name = "$b" + i.toString(36).padStart(4, "0");
            if (!source.includes(name))
                names.push(name);
        }
        return names;
    };

    const lineOf = (source, index) => source.slice(0, index).split(/\r\n|[\n\r\u2028\u2029]/).length;

    // The first import or re-export that stands on the line of the error; null: none does.
    const findImport = (source, line) => {
        const declaration = /(?<=^|[\s;}])(import|export)\b([^;"'()]*)(["'])([^"'\n]*)\3/g;
        for (const found of source.matchAll(declaration)) {
            const [text, keyword, clause, , specifier] = found;
            const from = /\bfrom\s*$/.test(clause) || (keyword === "import" && clause.trim() === "");
            const first = lineOf(source, found.index);
            if (first > line)
                break;
            if (from && line <= lineOf(source, found.index + text.length))
                return { specifier, line: first };
        }
        return null;
    };

    const explain = (source, failure, line, unfinished) => {
        const lines = lineOf(source, source.length);
        const found = line > 0 ? findImport(source, line) : null;
        if (found !== null)
            return { kind: "import", name: "Error", message: "Unsupported import in exec: " + found.specifier,
                     stack: "at cell.mjs:" + found.line };
        // Where the source ends too soon or too late the parser speaks of what is around it.
        let message = failure.message;
        if (message === "Parser error")
            message = "Unexpected token '}'";
        else if (line > lines && unfinished)
            message = "Unexpected end of input";
        return { kind: "syntax", name: "SyntaxError", message,
                 stack: line > 0 ? "at cell.mjs:" + Math.min(line, lines) : "" };
    };

    // The engine would say "Could not import the module": each import() becomes a call of ours. Only
    // the engine knows which of these words are code: one that is breaks when it is no token, and
    // holds when it is an operand (the name of a property or a method would not).
    const replaceImports = (source, wrap, name) => {
        if (!source.includes("import"))
            return source;
        const pieces = [];
        let end = 0, tried = 0;
        for (const { index } of source.matchAll(/\bimport(?=\s*\()/g)) {
            if (++tried > importsMax)
                break;
            const [before, after] = [source.slice(0, index), source.slice(index + 6)];
            if (checkSyntax(wrap(before + "im@ort" + after)) !== null &&
                checkSyntax(wrap(before + "(0)" + after)) === null) {
                pieces.push(source.slice(end, index), name);
                end = index + 6;
            }
        }
        return pieces.join("") + source.slice(end);
    };

    // Whether a stack has a frame for the call of an async function besides the one for its body.
    const callIsShown = (() => {
        let stack = "";
        const outer = () => {
            (async function () { stack = new Error().stack; })();
            return stack;
        };
        return outer().split("\n").findIndex((frame) => frame.startsWith("outer@")) > 1;
    })();

    // The source is the body of a strict async function (the engine has no modules for us), on lines of
    // its own numbers. Nothing of the machinery of promises says how it ends, so nothing that is done to
    // that machinery can hide it.
    const compile = (given) => {
        // A module may begin so.
        const source = given.startsWith("#!") ? "//" + given.slice(2) : given;
        const [failed, ended, imported, caught] = unusedNames(source, 4);
        const head = `(${failed},${ended},${imported})=>(async function(){"use strict";try{`;
        const tail = `\n}catch(${caught}){${failed}(${caught})}finally{${ended}()}})()`;
        const wrap = (body) => head + body + tail;
        const failure = checkSyntax(wrap(source));
        // A source that closes our braces and opens others would pass: it must be a body by itself, too.
        try {
            new AsyncFunction('"use strict";' + source);
        } catch (refusal) {
            return { error: explain(source, refusal, failure === null ? 0 : failure.line, true) };
        }
        if (failure !== null)
            return { error: explain(source, failure, failure.line, false) };
        return { text: wrap(replaceImports(source, wrap, imported)), indent: head.length,
                 lines: lineOf(source, source.length), callIsShown };
    };

    // The first time is the slow one.
    compile("await 0; text(`${1}`)");

    // ---- Later ----

    const { defineProperty, freeze } = Object;
    const [NativeError, NativeTypeError, NativeRangeError, NativeString] = [Error, TypeError, RangeError, String];
    const define = (object, name, value) =>
        defineProperty(object, name,
                       { __proto__: null, value, writable: true, configurable: true, enumerable: name !== "name" });
    const toolError = (message, kind, tool) => {
        const error = new NativeError(message);
        define(error, "name", "ToolError");
        define(error, "kind", kind);
        define(error, "tool", tool);
        return error;
    };
    return {
        __proto__: null,
        compile,
        toolError,
        freeze,
        string: NativeString,
        typeError: (message) => new NativeTypeError(message),
        rangeError: (message) => new NativeRangeError(message),
        plainError: (message) => new NativeError(message),
        Error: NativeError,
        RangeError: NativeRangeError,
        importModule: async (specifier) => {
            throw new NativeError("Unsupported import in exec: " + NativeString(specifier));
        },
    };
})
