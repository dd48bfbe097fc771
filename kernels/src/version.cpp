namespace labkit { const char* engine_version() { return "0.1.0"; } }
