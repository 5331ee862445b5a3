def cases(options): return []
