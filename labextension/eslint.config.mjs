import hooks from 'eslint-plugin-react-hooks';
import ts from 'typescript-eslint';

export default ts.config({ ignores: ['lib', 'node_modules', 'src/model/api.ts'] }, ts.configs.recommended, {
  files: ['src/**/*.{ts,tsx}'],
  plugins: { 'react-hooks': hooks },
  languageOptions: { parserOptions: { project: './tsconfig.test.json' } },
  rules: {
    'react-hooks/rules-of-hooks': 'error',
    'react-hooks/exhaustive-deps': 'error',
    '@typescript-eslint/no-floating-promises': 'error',
    '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: { attributes: false } }],
    '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    'no-console': 'error',
    eqeqeq: 'error',
    curly: 'error'
  }
});
