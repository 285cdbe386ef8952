"""torchferry for coding agents and editors: a server of the Model Context Protocol, and a language server."""
