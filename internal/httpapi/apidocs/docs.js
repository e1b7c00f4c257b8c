// Apart from the page, so that the page's Content-Security-Policy need not allow scripts within it.
SwaggerUIBundle({
  url: "openapi.yaml",
  dom_id: "#docs",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  // It would be asked at swagger.io whether the document is valid.
  validatorUrl: null,
});
