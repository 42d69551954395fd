"""to_diff.py file…: rewrite lists of mistake tuples in Exercise(...) calls as difference texts."""
import ast, sys
def wrap(words, first, width=108):
    out, line = [], first
    for w in words.split():
        if len(line)+1+len(w) > width and line.strip():
            out.append(line); line = " "+w
        else: line = (line+" "+w) if line.strip() else line+w
    out.append(line); return out
for path in sys.argv[1:]:
    src=open(path).read(); tree=ast.parse(src); lines=src.splitlines(keepends=True)
    starts=[0]
    for l in lines: starts.append(starts[-1]+len(l.encode()))
    b=src.encode(); edits=[]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func,"id","")=="Exercise":
            lst = node.args[5] if len(node.args)>5 else next((k.value for k in node.keywords if k.arg=="mistakes"),None)
            if not isinstance(lst, ast.List) or not lst.elts: continue
            try: entries=[ast.literal_eval(e) if not isinstance(e, ast.Call) else tuple(ast.literal_eval(a) for a in e.args) for e in lst.elts]
            except ValueError as x: print(path,"skip",node.args[0].value, x); continue
            text=[]
            for name, says, old, new in entries:
                head=f"{name}: {says}"
                text += wrap(head,"",108)
                text += [("- "+l).rstrip(" ") if not l else "- "+l for l in old.split("\n")]
                text += ["+ "+l if l else "+" for l in new.split("\n")] if new else []
            body="\n".join(text)
            assert '"""' not in body, name
            q = 'r"""' if "\\" in body else '"""'
            rep = q + ("\\\n" if q=='"""' else "\n") + body + '\n"""'
            s0=starts[lst.lineno-1]+lst.col_offset; s1=starts[lst.end_lineno-1]+lst.end_col_offset
            edits.append((s0,s1,rep))
    for s0,s1,rep in sorted(edits, reverse=True): b=b[:s0]+rep.encode()+b[s1:]
    out=b.decode().replace("  # fmt: skip","")
    open(path,"w").write(out); print(path,len(edits))
