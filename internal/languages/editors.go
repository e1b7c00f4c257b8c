package languages

// editorNames are the names that editors send and Linguist lacks or spells otherwise: identifiers of VS Code (its page
// "Language Identifiers", and what its built-in and most used extensions contribute) and the names VS Code shows for
// them. Each language is one that Linguist names, and no name here is one of Linguist's; tests hold both.
var editorNames = []struct {
	language string // Linguist's name
	names    []string
}{
	{"Assembly", []string{"asm-collection", "asm-intel-x86-generic"}},
	{"Cuda", []string{"cuda-cpp", "cuda c++"}},
	{"Diff", []string{"patch"}},
	{"Dockerfile", []string{"docker"}},
	{"Fortran", []string{"fortran-modern", "FortranFixedForm"}},
	{"Fortran Free Form", []string{"FortranFreeForm"}},
	{"Git Commit", []string{"git commit message"}},
	{"Graphviz (DOT)", []string{"dot", "graphviz"}},
	{"HCL", []string{"terraform-vars"}},
	{"HTML", []string{"htm"}},
	{"HTML+Razor", []string{"aspnetcorerazor"}},
	{"Ignore List", []string{"dockerignore"}},
	{"JSON", []string{"json lines"}},
	{"Java Properties", []string{"properties"}},
	{"JavaScript", []string{"javascriptreact", "javascript react", "javascript jsx", "jsx"}},
	{"Jinja", []string{"django-html", "jinja-html"}},
	{"Jupyter Notebook", []string{"jupyter"}},
	{"OCaml", []string{"ocaml.interface"}},
	{"Objective-C++", []string{"objective-cpp"}},
	{"Open Policy Agent", []string{"rego"}},
	{"PowerShell", []string{"ps1"}},
	{"Protocol Buffer", []string{"proto3"}},
	{"Pug", []string{"jade"}},
	{"RMarkdown", []string{"rmd", "quarto"}},
	{"Shell", []string{"shellscript", "shell script"}},
	{"TSX", []string{"typescript react", "typescript jsx"}},
	{"TeX", []string{"latex-expl3"}},
	{"Text", []string{"plaintext"}},
	{"Visual Basic .NET", []string{"vb"}},
	{"Vue", []string{"vue-html"}},
	{"YAML", []string{"ansible", "azure-pipelines", "dockercompose", "docker compose", "github-actions-workflow"}},
}
